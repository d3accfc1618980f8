//! Pages of a state file as bytes (<https://sqlite.org/fileformat2.html>), for what must be known of
//! a file before SQLite opens it, or although it cannot. Reads no files.

/// The first page of a file begins with the header of the file, which has this size.
pub const FILE_HEADER_SIZE: usize = 100;

/// What a page has. Pages of other kinds go on with what a row begins, or are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    InnerOfIndex,
    InnerOfTable,
    LeafOfIndex,
    LeafOfTable,
}

/// A page of a file.
pub struct Page<'a> {
    bytes: &'a [u8],
    /// Where the header of the page begins.
    start: usize,
}

/// A value of a row, as it is written.
pub struct Value<'a> {
    value_type: u64,
    bytes: &'a [u8],
}

impl<'a> Page<'a> {
    /// The page with a number, counted from 1, and its bytes.
    pub fn new(bytes: &'a [u8], number: u32) -> Self {
        Self { bytes, start: if number == 1 { FILE_HEADER_SIZE } else { 0 } }
    }

    /// What the page has, by its first byte; none if it is neither of a table nor of an index.
    pub fn kind(&self) -> Option<PageKind> {
        match self.bytes.get(self.start)? {
            2 => Some(PageKind::InnerOfIndex),
            5 => Some(PageKind::InnerOfTable),
            10 => Some(PageKind::LeafOfIndex),
            13 => Some(PageKind::LeafOfTable),
            _ => None,
        }
    }

    /// Where the cells of the page begin: its rows, or the pages below it.
    pub fn cells(&self) -> Vec<usize> {
        let first = match self.kind() {
            Some(PageKind::LeafOfIndex | PageKind::LeafOfTable) => self.start + 8,
            Some(PageKind::InnerOfIndex | PageKind::InnerOfTable) => self.start + 12,
            None => return Vec::new(),
        };
        let count = self.two_bytes(self.start + 3).unwrap_or_default();
        (0..count).map_while(|index| self.two_bytes(first + 2 * index)).collect()
    }

    /// The numbers of the pages below this one.
    pub fn children(&self) -> Vec<u32> {
        let mut children = Vec::new();
        if let Some(PageKind::InnerOfIndex | PageKind::InnerOfTable) = self.kind() {
            children.extend(self.four_bytes(self.start + 8));
            for cell in self.cells() {
                children.extend(self.four_bytes(cell));
            }
        }
        children
    }

    /// Reads the first values of the row whose cell begins at an offset. None if the page does not
    /// have them whole.
    pub fn read_row(&self, cell: usize, count: usize) -> Option<Vec<Value<'a>>> {
        let (mut types, mut contents) = self.open_row(cell)?;
        let mut values = Vec::new();
        for _ in 0..count {
            let value_type = types.take_varint()?;
            values.push(Value { value_type, bytes: contents.take(size_of_value(value_type)?)? });
        }
        Some(values)
    }

    /// How many values the row has whose cell begins at an offset. None if the page does not say.
    pub fn count_values(&self, cell: usize) -> Option<u32> {
        let (mut types, _) = self.open_row(cell)?;
        let mut count = 0;
        while !types.0.is_empty() {
            types.take_varint()?;
            count += 1;
        }
        Some(count)
    }

    /// The types of the values of a row, and the values behind them, as far as the page has them.
    fn open_row(&self, cell: usize) -> Option<(Bytes<'a>, Bytes<'a>)> {
        let mut row = Bytes(self.bytes.get(cell..)?);
        let _size_of_row = row.take_varint()?;
        let _number_of_row = row.take_varint()?;
        let content = row.0;
        let header_size = usize::try_from(row.take_varint()?).ok()?;
        let types = Bytes(content.get(content.len() - row.0.len()..header_size)?);
        Some((types, Bytes(content.get(header_size..)?)))
    }

    fn two_bytes(&self, offset: usize) -> Option<usize> {
        let bytes = self.bytes.get(offset..offset + 2)?;
        Some(usize::from(u16::from_be_bytes(bytes.try_into().ok()?)))
    }

    fn four_bytes(&self, offset: usize) -> Option<u32> {
        let bytes = self.bytes.get(offset..offset + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }
}

impl<'a> Value<'a> {
    /// A text; none for a value that is no text.
    pub fn text(&self) -> Option<&'a str> {
        let is_text = self.value_type >= 13 && self.value_type % 2 == 1;
        if is_text { std::str::from_utf8(self.bytes).ok() } else { None }
    }

    /// A whole number that is not negative. The numbers 0 and 1 have types of their own and no bytes.
    pub fn number(&self) -> Option<i64> {
        match self.value_type {
            8 => return Some(0),
            9 => return Some(1),
            1..=6 => {}
            _ => return None,
        }
        let mut number = [0; 8];
        number.get_mut(8_usize.checked_sub(self.bytes.len())?..)?.copy_from_slice(self.bytes);
        Some(i64::from_be_bytes(number))
    }
}

/// How many bytes a value of a type has in a row; none for a type that nothing here reads.
fn size_of_value(value_type: u64) -> Option<usize> {
    Some(match value_type {
        0 | 8 | 9 => 0,
        1..=4 => usize::try_from(value_type).ok()?,
        5 => 6,
        6 => 8,
        12.. => usize::try_from((value_type - 12) / 2).ok()?,
        _ => return None,
    })
}

/// Bytes of which the first ones are taken.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of SQLite, of which each byte but the last has its highest bit set.
    fn take_varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for _ in 0..8 {
            let byte = self.take(1)?[0];
            number = (number << 7) | u64::from(byte & 0x7f);
            if byte < 0x80 {
                return Some(number);
            }
        }
        // Only numbers beyond 56 bits have a ninth byte, and no row that is read here is so long.
        None
    }
}

//! The text of a state that is moved here. A small one is read at once. A large one is read object by
//! object, and its leases and events, of which there may be many, are put into a spool. If there is
//! anything to tell about a large text, it is read at once, too: that tells everything, with places.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::Path;

use crate::manifest::parts::needs_places;
use crate::manifest::spool::Spool;
use crate::manifest::spooled_leases::SpooledLeases;
use crate::manifest::texts::{read_text, read_texts, refuse_unreadable};
use crate::manifest::{
    LARGEST_STATE, Manifests, ReadOptions, add_document, add_texts, finish_reading, string_field,
};
use crate::model::ip_lease::IpClaim;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::yaml::{self, JsonPart, Node};

/// A text with more bytes is large.
const LARGE: usize = yaml::MAX_BYTES;

/// The text of a state.
pub enum StateText {
    /// Texts in memory, each with the name of its file.
    Small(Vec<(String, String)>),
    /// A file, and its name.
    Large(File, String),
}

impl StateText {
    /// Opens a file, the manifests of a folder, or standard input if the path is `-`. What comes
    /// from there and is large is kept in a file without a name in `folder`.
    pub fn open(path: &Path, folder: &Path) -> Result<Self, Refusal> {
        let name = path.display().to_string();
        if name == "-" {
            return Self::take_stdin(folder);
        }
        let is_large = std::fs::metadata(path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() > LARGE as u64);
        if !is_large {
            return Ok(Self::Small(read_texts(path, LARGEST_STATE)?));
        }
        let file = File::open(path).map_err(|error| refuse_unreadable(&name, &error))?;
        Ok(Self::Large(file, name))
    }

    fn take_stdin(folder: &Path) -> Result<Self, Refusal> {
        let name = "stdin".to_owned();
        let mut stdin = io::stdin().lock();
        let mut start = Vec::new();
        stdin
            .by_ref()
            .take(LARGE as u64 + 1)
            .read_to_end(&mut start)
            .map_err(|error| refuse_unreadable(&name, &error))?;
        if start.len() <= LARGE {
            let content = read_text(&name, start.as_slice(), LARGE)?;
            return Ok(Self::Small(vec![(name, content)]));
        }
        let file = copy_to_unnamed_file(&start, stdin, folder)
            .map_err(|error| Refusal::unwritable(folder, &error))?;
        Ok(Self::Large(file, name))
    }

    /// Reads everything at once. The refusal tells all that is wrong with it.
    pub fn read(&self, reading: &ReadOptions<'_>) -> Result<Manifests, Refusal> {
        let mut manifests = Manifests::default();
        let refusals = match self {
            Self::Small(texts) => add_texts(&mut manifests, texts, reading),
            Self::Large(file, name) => {
                let source = rewind(file).map_err(|error| refuse_unreadable(name, &error))?;
                let content = read_text(name, source, reading.limit())?;
                add_texts(&mut manifests, &[(name.clone(), content)], reading)
            }
        };
        finish_reading(manifests, refusals)
    }

    /// Reads a large text object by object. None if the text is small, if it is no text whose objects
    /// can be read one by one, or if there is anything to tell about it: `read` tells it.
    pub fn read_to_spool(
        &self,
        reading: &ReadOptions<'_>,
        folder: &Path,
    ) -> Option<(Manifests, Spool)> {
        let Self::Large(file, name) = self else { return None };
        if file.metadata().ok()?.len() > LARGEST_STATE as u64 {
            return None;
        }
        let mut source = BufReader::new(rewind(file).ok()?);
        let mut reader = SpoolingReader {
            manifests: Manifests::default(),
            kept_objects: 0,
            spool: Spool::create_in(folder).ok()?,
            leases: SpooledLeases::default(),
        };
        if begins_as_json(&mut source) {
            yaml::visit_json_of(source, &mut |part| match part {
                JsonPart::Item(document) | JsonPart::Document(document) => {
                    reader.take(name, document, reading).is_some()
                }
                // Of another document its items are no documents.
                JsonPart::RestOfList(list) => string_field(&list, "kind") == "List",
            })?;
        } else {
            yaml::visit_list_within(source, reading.limit(), &mut |item| {
                reader.take(name, item, reading).is_some()
            })?;
        }
        reader.finish()
    }
}

/// Copies what has been read, and what follows it, into a file that is gone when it is closed. There
/// may be secrets in it.
fn copy_to_unnamed_file(start: &[u8], rest: impl Read, folder: &Path) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(start)?;
    io::copy(&mut rest.take(LARGEST_STATE as u64), &mut file)?;
    Ok(file)
}

/// The file, to be read from its beginning.
fn rewind(mut file: &File) -> io::Result<&File> {
    file.rewind()?;
    Ok(file)
}

fn begins_as_json(source: &mut impl BufRead) -> bool {
    source.fill_buf().is_ok_and(|bytes| bytes.trim_ascii_start().starts_with(b"{"))
}

/// Reads the objects of a state one by one.
struct SpoolingReader {
    /// Everything but leases and events.
    manifests: Manifests,
    /// How many objects of the manifests stay there.
    kept_objects: usize,
    spool: Spool,
    leases: SpooledLeases,
}

impl SpoolingReader {
    /// Reads an object. None if there is something to tell about it.
    fn take(&mut self, file: &str, document: Node, reading: &ReadOptions<'_>) -> Option<()> {
        let refusals = add_document(&mut self.manifests, file, document, reading);
        if !refusals.is_empty() || needs_places(&self.manifests) {
            return None;
        }
        for event in std::mem::take(&mut self.manifests.events) {
            let last_event = &mut self.manifests.last_spooled_event;
            *last_event = (*last_event).max(Some(event.time));
            self.spool.add_event(&event).ok()?;
        }
        for object in self.manifests.objects.split_off(self.kept_objects) {
            self.put_away(object)?;
        }
        self.kept_objects = self.manifests.objects.len();
        Some(())
    }

    /// Puts a lease into the spool, and keeps any other object.
    fn put_away(&mut self, object: Object) -> Option<()> {
        let identity = (object.kind(), object.key());
        match object {
            Object::IpAddress(address) => {
                self.leases.add_address(&address)?;
                self.spool.add_address(&address).ok()?;
            }
            Object::IpClaim(mut claim) => {
                use_field_of_today(&mut claim);
                self.leases.add_claim(&claim)?;
                self.spool.add_claim(&claim).ok()?;
            }
            other_object => {
                self.manifests.objects.push(other_object);
                return Some(());
            }
        }
        self.manifests.places.forget(&identity);
        self.manifests.server_objects.remove(&identity);
        Some(())
    }

    /// What was read, if nothing is wrong with it as a whole.
    fn finish(self) -> Option<(Manifests, Spool)> {
        let mut pools = Vec::new();
        for object in &self.manifests.objects {
            match object {
                Object::IpPool(pool) => pools.push(&**pool),
                // For which host of a cluster an address is follows from its Agents.
                Object::Agent(_) => return None,
                _ => {}
            }
        }
        // Which Secrets of a server are needed follows from the namespaces of all objects.
        let has_server_secrets =
            self.manifests.server_objects.iter().any(|(kind, _)| *kind == Kind::Secret);
        if has_server_secrets || !self.leases.agree_with(&pools) {
            return None;
        }
        let mut manifests = finish_reading(self.manifests, Vec::new()).ok()?;
        for object in &mut manifests.objects {
            if let Object::IpPool(pool) = object {
                // They were compared with the leases, which are no longer beside the pool.
                pool.status.addresses.clear();
                pool.status.allocations.clear();
                pool.status.indexes.clear();
            }
        }
        let mut spool = self.spool;
        spool.leased_addresses = self.leases.into_leased_addresses();
        Some((manifests, spool))
    }
}

/// The address of a claim under an earlier name of the field is not written again.
fn use_field_of_today(claim: &mut IpClaim) {
    let status = &mut claim.status;
    if status.address.is_none() {
        status.address = status.ip_address.take();
    }
}

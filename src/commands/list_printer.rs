//! Prints a List of documents in portions, however long it is. It knows no kinds.

use serde_json::Value;

use crate::model::refusal::Refusal;
use crate::output::{Format, ListText, PORTION};

use crate::commands::Context;

/// A List that is being printed.
pub struct ListPrinter<'a> {
    context: &'a Context,
    list_text: ListText,
    portion: String,
}

impl<'a> ListPrinter<'a> {
    /// A printer that has no rows yet, for the format that was asked for.
    pub fn new(context: &'a Context) -> Self {
        let list_text = ListText::new(&context.globals.output);
        Self { context, list_text, portion: String::new() }
    }

    /// Whether the format of the command is one whose text can be made item by item.
    pub fn fits(format: &Format) -> bool {
        ListText::fits(format)
    }

    /// Prints the next item, perhaps together with later ones.
    pub fn add(&mut self, item: Value) -> Result<(), Refusal> {
        self.portion += &self.list_text.add(item)?;
        if self.portion.len() >= PORTION {
            self.context.print_portion(&self.portion)?;
            self.portion.clear();
        }
        Ok(())
    }

    /// Prints what is left, and the end of the List.
    pub fn finish(self) -> Result<(), Refusal> {
        let Self { context, list_text, portion } = self;
        context.print_portion(&(portion + &list_text.finish()?))
    }
}

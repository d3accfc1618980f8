//! The folder with the files of an export for another program: a List for each kind, a script and a
//! README. It knows no kind but namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::output::{Answer, Format, ListText, join_lines};
use crate::store::copies::{self, ExistingFile};

use crate::commands::{Context, count_of};

/// A file of the folder.
pub struct ExportedFile {
    pub name: String,
    pub kind: Kind,
    pub object_count: usize,
}

/// Writes the documents of each kind into a file of its own. The files are numbered in this order.
pub fn write_documents(
    folder: &Path,
    kinds: &[Kind],
    documents: &BTreeMap<Kind, Vec<Value>>,
) -> Result<Vec<ExportedFile>, Refusal> {
    let mut files = Vec::new();
    for (position, kind) in kinds.iter().enumerate() {
        let documents_of_kind = &documents[kind];
        let name = format!("{:02}-{}.yaml", position * 10, kind.name().to_lowercase());
        write_file(folder, &name, &list_of(documents_of_kind)?)?;
        files.push(ExportedFile { name, kind: *kind, object_count: documents_of_kind.len() });
    }
    Ok(files)
}

/// Answers with the files and how many objects each has.
pub fn answer_with_files(
    context: &Context,
    folder: &Path,
    files: &[ExportedFile],
) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    let mut documents = Vec::new();
    for file in files {
        lines.push(format!("{}  {}", file.name, count_of(file.object_count, "object")));
        documents.push(json!({"file": file.name, "objects": file.object_count}));
    }
    let document = json!({"folder": folder, "files": documents});
    context.answer(Answer::text(join_lines(&lines)).with_document(document))?;
    context.hint(&format!("next: read {}/README.md, then run apply.sh there", folder.display()));
    Ok(())
}

/// Makes the folder. One that has files is refused: they would be applied as well.
pub fn prepare_folder(folder: &Path) -> Result<(), Refusal> {
    std::fs::create_dir_all(folder).map_err(|error| Refusal::unwritable(folder, &error))?;
    let mut entries =
        std::fs::read_dir(folder).map_err(|error| Refusal::unwritable(folder, &error))?;
    if entries.next().is_some() {
        return Err(Refusal::conflict(format!("folder `{}` is not empty", folder.display()))
            .advise("name a new folder"));
    }
    Ok(())
}

/// Writes a file that only its owner may read into the folder of an export. A file that is there
/// already is refused.
pub fn write_file(folder: &Path, name: &str, content: &str) -> Result<(), Refusal> {
    copies::write_private_file(&folder.join(name), content.as_bytes(), ExistingFile::Keep)
}

/// The text of a List of documents.
pub fn list_of(documents: &[Value]) -> Result<String, Refusal> {
    let mut list = ListText::new(&Format::Yaml);
    let mut content = String::new();
    for document in documents {
        content += &list.add(document.clone())?;
    }
    content += &list.finish()?;
    Ok(content)
}

/// Adds the namespaces of all documents, but for those that are among the documents.
pub fn add_namespaces(documents: &mut BTreeMap<Kind, Vec<Value>>) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for document in documents.values().flatten() {
        names.extend(document["metadata"]["namespace"].as_str().map(str::to_owned));
    }
    for namespace in documents.get(&Kind::Namespace).into_iter().flatten() {
        names.remove(namespace["metadata"]["name"].as_str().unwrap_or_default());
    }
    if !names.is_empty() {
        let new_namespaces = names.into_iter().map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        documents.entry(Kind::Namespace).or_default().extend(new_namespaces);
    }
}

/// Adds a sentence and what it is about; nothing if there is nothing.
pub fn add_section(lines: &mut Vec<String>, sentence: &str, entries: Vec<String>) {
    if entries.is_empty() {
        return;
    }
    lines.extend([String::new(), sentence.to_owned(), String::new()]);
    lines.extend(entries);
}

//! The text of a state that is moved here. A small one is read at once. A large one is read object by
//! object, and its clusters, leases and events, of which there may be many, are put into a spool. If
//! objects of a large text do not go together, all of them are held in memory: then it can be told why.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::Value;

use crate::manifest::large_text::{
    LARGE, LargeText, Problems, ReadObject, forget_objects, read_large_text, refuse_text,
};
use crate::manifest::parts::has_troubles;
use crate::manifest::spool::Spool;
use crate::manifest::spooled_clusters::{JobPlacement, Placement, may_be_put_aside};
use crate::manifest::spooled_leases::SpooledLeases;
use crate::manifest::texts::{read_text, read_texts, refuse_large, refuse_unreadable};
use crate::manifest::{
    LARGEST_SPOOLED_STATE, LARGEST_STATE, Manifests, ReadOptions, add_texts, finish_reading,
};
use crate::model::ip_lease::IpClaim;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;

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

    /// Reads everything into memory. The refusal tells all that is wrong with it.
    pub fn read(&self, reading: &ReadOptions<'_>) -> Result<Manifests, Refusal> {
        match self {
            Self::Small(texts) => {
                let mut manifests = Manifests::default();
                let refusals = add_texts(&mut manifests, texts, reading);
                finish_reading(manifests, refusals)
            }
            Self::Large(file, name) => {
                let text = LargeText::File(file);
                let size = text.size().map_err(|error| refuse_unreadable(name, &error))?;
                if size > LARGEST_STATE as u64 {
                    return Err(refuse_large(name, LARGEST_STATE));
                }
                let (manifests, refusals) = read_large_text(text, name, reading);
                finish_reading(manifests, refusals)
            }
        }
    }

    /// Reads a large text object by object. None if the text is small, if it is no text whose objects
    /// can be read one by one, or if some of them may not go together: `read` reads it then.
    pub fn read_to_spool(
        &self,
        reading: &ReadOptions<'_>,
        folder: &Path,
    ) -> Result<Option<(Manifests, Spool)>, Refusal> {
        let Self::Large(file, name) = self else { return Ok(None) };
        let text = LargeText::File(file);
        let Some(cut) = text.cuts().into_iter().next() else { return Ok(None) };
        if !text.size().is_ok_and(|size| size <= LARGEST_SPOOLED_STATE as u64) {
            return Ok(None);
        }
        let Ok(spool) = Spool::create_in(folder) else { return Ok(None) };
        let mut reader = SpoolingReader {
            manifests: Manifests::default(),
            kept_objects: 0,
            spool,
            leases: SpooledLeases::default(),
            problems: Problems::default(),
        };
        let end = text.visit_objects(cut, name, reading, may_be_put_aside, &mut |object| {
            reader.take(object).is_some()
        });
        match end {
            Ok(()) => reader.finish(reading),
            Err(_) if reader.knows_enough_problems() => reader.refuse(name),
            Err(error) if error.is_too_much => Err(refuse_text(name, &error)),
            Err(_) => Ok(None),
        }
    }
}

/// Copies what has been read, and what follows it, into a file that is gone when it is closed. There
/// may be secrets in it.
fn copy_to_unnamed_file(start: &[u8], rest: impl Read, folder: &Path) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(start)?;
    io::copy(&mut rest.take(LARGEST_SPOOLED_STATE as u64), &mut file)?;
    Ok(file)
}

/// Reads the objects of a state one by one.
struct SpoolingReader {
    /// Everything that is not put into the spool.
    manifests: Manifests,
    /// How many objects of the manifests stay there.
    kept_objects: usize,
    spool: Spool,
    leases: SpooledLeases,
    /// What is wrong with the objects. Once there is something, no object is kept any more.
    problems: Problems,
}

impl SpoolingReader {
    /// Takes what an object has been read to, and what is wrong with it. None if enough is known: the
    /// objects may not go together, or there are too many problems.
    fn take(&mut self, read_object: ReadObject) -> Option<()> {
        let ReadObject { mut manifests, refusals, document } = read_object;
        let new_jobs = std::mem::take(&mut manifests.jobs);
        self.manifests.append(manifests);
        self.problems.add(refusals);
        if self.is_refused() {
            forget_objects(&mut self.manifests);
            self.leases = SpooledLeases::default();
            return if self.knows_enough_problems() { None } else { Some(()) };
        }
        if has_troubles(&self.manifests) {
            return None;
        }
        for event in std::mem::take(&mut self.manifests.events) {
            let last_event = &mut self.manifests.last_spooled_record;
            *last_event = (*last_event).max(Some(event.time));
            self.spool.add_event(&event).ok()?;
        }
        let document = document.unwrap_or_default();
        for job in new_jobs {
            match self.spool.clusters.take_job(&job, &document)? {
                JobPlacement::WithCluster => {}
                JobPlacement::Kept => self.manifests.jobs.push(job),
                JobPlacement::Past => self.spool.add_past_job(&job).ok()?,
            }
        }
        for object in self.manifests.objects.split_off(self.kept_objects) {
            self.put_away(object, &document)?;
        }
        self.kept_objects = self.manifests.objects.len();
        Some(())
    }

    /// Puts a lease, or what belongs to a cluster, into the spool, and keeps any other object.
    fn put_away(&mut self, object: Object, document: &Value) -> Option<()> {
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
            mut other_object => {
                let placement = self.spool.clusters.place_object(&mut other_object, document)?;
                if placement == Placement::Kept {
                    self.manifests.objects.push(other_object);
                    return Some(());
                }
                if self.manifests.server_objects.contains(&identity) {
                    // Whether an object of a server is needed is known when all objects are.
                    return None;
                }
            }
        }
        self.manifests.places.forget(&identity);
        self.manifests.server_objects.remove(&identity);
        Some(())
    }

    /// Whether the text is refused. A pool that cannot be taken refuses it, too, unless it is skipped,
    /// and then no text is read in this way.
    fn is_refused(&self) -> bool {
        !self.problems.is_empty() || !self.manifests.refused_pools.is_empty()
    }

    fn knows_enough_problems(&self) -> bool {
        self.problems.are_enough(self.manifests.refused_pools.len())
    }

    /// Refuses the text for the first of its problems.
    fn refuse(self, file: &str) -> Result<Option<(Manifests, Spool)>, Refusal> {
        finish_reading(self.manifests, self.problems.into_first_refusals(file)).map(|_| None)
    }

    /// What was read, if nothing is wrong with it as a whole. The refusal tells what is wrong with its
    /// objects. If only pools are refused, they are all that is left of the text: whoever takes it knows
    /// the command that leaves them out.
    fn finish(self, reading: &ReadOptions<'_>) -> Result<Option<(Manifests, Spool)>, Refusal> {
        if !self.problems.is_empty() {
            return finish_reading(self.manifests, self.problems.into_refusals()).map(|_| None);
        }
        if self.is_refused() {
            return Ok(Some((self.manifests, self.spool)));
        }
        Ok(self.finish_spool(reading))
    }

    /// What was read, if its clusters and its leases go together.
    fn finish_spool(mut self, reading: &ReadOptions<'_>) -> Option<(Manifests, Spool)> {
        self.spool.clusters.finish(&mut self.manifests, reading)?;
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

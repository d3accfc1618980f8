//! What is put aside of a state that is too large to be held in memory: leases, events, jobs of the
//! past and the clusters of pools. It is in files without names, which are gone with the command.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Lines, Seek, Write};
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::manifest::chained_records::refuse_temporary_file;
use crate::manifest::spooled_clusters::SpooledClusters;
use crate::manifest::spooled_leases::LeasedAddresses;
use crate::model::event::{Event, EventDocument};
use crate::model::ip_lease::{IpAddress, IpClaim};
use crate::model::job::{Job, JobDocument};
use crate::model::refusal::Refusal;

/// Leases, events, past jobs and clusters, in the order of the text that they come from.
pub struct Spool {
    pub clusters: SpooledClusters,
    jobs: RecordFile,
    addresses: RecordFile,
    claims: RecordFile,
    events: RecordFile,
    /// The addresses of all leases, known once everything is in the spool.
    pub leased_addresses: LeasedAddresses,
}

impl Spool {
    /// Makes the files in a folder.
    pub fn create_in(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            clusters: SpooledClusters::create_in(folder)?,
            jobs: RecordFile::create_in(folder)?,
            addresses: RecordFile::create_in(folder)?,
            claims: RecordFile::create_in(folder)?,
            events: RecordFile::create_in(folder)?,
            leased_addresses: LeasedAddresses::default(),
        })
    }

    /// Puts an address aside.
    pub fn add_address(&mut self, address: &IpAddress) -> io::Result<()> {
        self.addresses.add(address)
    }

    /// Puts a claim aside.
    pub fn add_claim(&mut self, claim: &IpClaim) -> io::Result<()> {
        self.claims.add(claim)
    }

    /// Puts a job aside that has ended.
    pub fn add_past_job(&mut self, job: &Job) -> io::Result<()> {
        self.jobs.add(&job.to_wire())
    }

    /// Puts an event aside.
    pub fn add_event(&mut self, event: &Event) -> io::Result<()> {
        self.events.add(&event.to_wire())
    }

    /// How many objects there are.
    pub fn object_count(&self) -> usize {
        self.addresses.count + self.claims.count + self.clusters.object_count
    }

    /// Everything that was put aside.
    pub fn into_readers(self) -> Result<SpoolReaders, Refusal> {
        Ok(SpoolReaders {
            clusters: self.clusters,
            jobs: self.jobs.into_reader().map_err(|error| refuse_temporary_file(&error))?,
            addresses: self
                .addresses
                .into_reader()
                .map_err(|error| refuse_temporary_file(&error))?,
            claims: self.claims.into_reader().map_err(|error| refuse_temporary_file(&error))?,
            events: self.events.into_reader().map_err(|error| refuse_temporary_file(&error))?,
        })
    }
}

/// What a spool holds, to be read.
pub struct SpoolReaders {
    pub clusters: SpooledClusters,
    pub jobs: SpoolReader<JobDocument>,
    pub addresses: SpoolReader<IpAddress>,
    pub claims: SpoolReader<IpClaim>,
    pub events: SpoolReader<EventDocument>,
}

/// Records of one type, each on a line of a file.
struct RecordFile {
    out: BufWriter<File>,
    count: usize,
}

impl RecordFile {
    fn create_in(folder: &Path) -> io::Result<Self> {
        Ok(Self { out: BufWriter::new(tempfile::tempfile_in(folder)?), count: 0 })
    }

    fn add(&mut self, record: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")?;
        self.count += 1;
        Ok(())
    }

    fn into_reader<T>(self) -> io::Result<SpoolReader<T>> {
        let mut file = self.out.into_inner()?;
        file.rewind()?;
        Ok(SpoolReader { lines: BufReader::new(file).lines(), record: PhantomData })
    }
}

/// Records of a type, which are read in portions.
pub struct SpoolReader<T> {
    lines: Lines<BufReader<File>>,
    record: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> SpoolReader<T> {
    /// The next records, `limit` at most. None are left if there are none.
    pub fn read_portion(&mut self, limit: usize) -> Result<Vec<T>, Refusal> {
        let mut records = Vec::new();
        for line in self.lines.by_ref().take(limit) {
            let line = line.map_err(|error| refuse_temporary_file(&error))?;
            let record = serde_json::from_str(&line)
                .map_err(|error| refuse_temporary_file(&error.into()))?;
            records.push(record);
        }
        Ok(records)
    }
}

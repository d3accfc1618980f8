//! Tells the program which commit and which sources it is built from, and which migrations there
//! are, and links the unwinder statically. The commit never fails the build: without git or a repository it is what
//! `POOLCTL_COMMIT` says, else `unknown`.

#![expect(clippy::disallowed_methods, reason = "a build script is no part of the program")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made of, beside the versions of its libraries.
const SOURCES: &str = "src";
/// The versions of its libraries.
const LIBRARIES: &str = "Cargo.lock";
/// SQL files called 1.sql, 2.sql and so on.
const MIGRATIONS: &str = "src/store/migrations";
/// What all migrations make, as one script. A test writes it.
const NEWEST_SCHEMA: &str = "src/store/newest_schema.sql";

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=POOLCTL_COMMIT");
    let commit = commit_of_repository().or_else(given_commit);
    println!("cargo:rustc-env=POOLCTL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    link_unwinder_statically()?;
    link_tests_at_fixed_addresses();
    println!("cargo:rustc-env=POOLCTL_SOURCES_DIGEST={:016x}", hash_sources()?);
    write_migrations()
}

/// The FNV-1a hash of all sources and of the versions of the libraries: of each file its path and its
/// content, in the order of the paths.
fn hash_sources() -> std::io::Result<u64> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![top.join(LIBRARIES)];
    add_files(&top.join(SOURCES), &mut paths)?;
    paths.sort();
    let mut hash = FNV_OFFSET;
    for path in paths {
        let name = path.strip_prefix(top).unwrap_or(&path).to_string_lossy();
        hash = add_to_hash(hash, name.as_bytes());
        hash = add_to_hash(hash, &std::fs::read(&path)?);
    }
    println!("cargo:rerun-if-changed={SOURCES}");
    println!("cargo:rerun-if-changed={LIBRARIES}");
    Ok(hash)
}

/// Adds the files of a folder and of the folders in it.
fn add_files(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { add_files(&path, paths)? } else { paths.push(path) }
    }
    Ok(())
}

/// Has the unwinder linked into the program, as it is in the packages of a release. As a library
/// beside the program, libgcc is loaded at each start, which takes a tenth of a command's time.
/// Linkers of another family find no such archives; then nothing changes.
fn link_unwinder_statically() -> std::io::Result<()> {
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    // The compiler of this machine has archives for this machine alone.
    if std::env::var_os("HOST") != std::env::var_os("TARGET") {
        return Ok(());
    }
    let (Some(unwinder), Some(runtime)) = (find_archive("libgcc_eh.a"), find_archive("libgcc.a"))
    else {
        return Ok(());
    };
    // To a linker, a text file with the name of a library is the list of what it is made of.
    let script = format!("GROUP(\"{unwinder}\" \"{runtime}\")\n");
    let folder = output_folder().join("link");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("libgcc_s.so"), script)?;
    println!("cargo:rustc-link-search=native={}", folder.display());
    Ok(())
}

/// Has the programs of tests linked for one address. Without optimization they hold a hundred
/// thousand pointers, and to correct each for another address takes half the time of a start, of which
/// tests need fifty thousand. Programs that are released keep changing their addresses.
fn link_tests_at_fixed_addresses() {
    let is_native = std::env::var_os("HOST") == std::env::var_os("TARGET");
    let uses_glibc = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|name| name == "gnu");
    let is_for_tests = std::env::var("PROFILE").is_ok_and(|name| name == "debug");
    if is_native && uses_glibc && is_for_tests {
        println!("cargo:rustc-link-arg=-no-pie");
    }
}

/// Asks the compiler that links where an archive of its own is; none if it has no such archive.
fn find_archive(name: &str) -> Option<String> {
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let path = output_of(Command::new(linker).arg(format!("-print-file-name={name}")))?;
    // A compiler that does not know the archive prints the name alone.
    Path::new(&path).is_absolute().then_some(path)
}

fn output_folder() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default())
}

/// Writes the list of migrations and its length, which is the schema of this program.
fn write_migrations() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(MIGRATIONS);
    let schema = std::fs::read_dir(&folder)?.count();
    let mut code = format!(
        "/// The schema of this program: as many as there are migrations.\n\
         pub const SCHEMA: u32 = {schema};\n\
         /// Migration N makes schema N out of the one before; the first makes it out of an empty \
         file.\n\
         pub const MIGRATIONS: [&str; {schema}] = ["
    );
    let mut hash = FNV_OFFSET;
    for number in 1..=schema {
        // A file that is missing or called otherwise fails the build here.
        let path = folder.join(format!("{number}.sql")).canonicalize()?;
        hash = add_to_hash(hash, &std::fs::read(&path)?);
        let _ = write!(code, "include_str!({:?}),", path.to_string_lossy());
    }
    code.push_str("];\n");
    write_newest_schema(&mut code, hash);
    std::fs::write(output_folder().join("migrations.rs"), code)
}

/// Writes the script of the newest schema, if it was made of these migrations. Otherwise new states
/// run all of them, until the script is written anew.
fn write_newest_schema(code: &mut String, hash: u64) {
    let digest = format!("{hash:016x}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(NEWEST_SCHEMA);
    let script = std::fs::read_to_string(&path).unwrap_or_default();
    let is_current = script.contains(&format!("Digest of the migrations: {digest}\n"));
    let value = if is_current {
        format!("Some(include_str!({:?}))", path.to_string_lossy())
    } else {
        "None".to_owned()
    };
    let _ = write!(
        code,
        "/// The FNV-1a hash of all migrations, in hexadecimal digits.\n\
         pub const MIGRATIONS_DIGEST: &str = \"{digest}\";\n\
         /// What all migrations make out of an empty file, as one script.\n\
         pub const NEWEST_SCHEMA: Option<&str> = {value};\n"
    );
}

/// The FNV-1a hash of no bytes.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// The FNV-1a hash of what was hashed before and of these bytes.
fn add_to_hash(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The commit that is checked out, if this folder is the top of a repository. A source archive that
/// was unpacked inside another repository is not of that repository's commit.
fn commit_of_repository() -> Option<String> {
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    watch("HEAD");
    // Without a ref of its own, HEAD is detached and names the commit itself.
    if let Some(reference) = git(&["symbolic-ref", "--quiet", "HEAD"]) {
        watch(&reference);
        // Git may move a ref from its own file into this one.
        watch("packed-refs");
    }
    git(&["rev-parse", "--short=12", "HEAD"]).filter(|commit| !commit.is_empty())
}

/// Builds again when a file of the repository changes. Cargo takes a file that is absent for one
/// that has always changed, so that only files that exist are watched.
fn watch(name: &str) {
    let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
    if let Some(path) = path {
        println!("cargo:rerun-if-changed={path}");
    }
}

fn given_commit() -> Option<String> {
    let given = std::env::var("POOLCTL_COMMIT").ok()?;
    given.split_whitespace().next().map(str::to_owned)
}

/// What git prints, without its last newline; none if it fails or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    output_of(Command::new("git").args(arguments))
}

/// What a program prints, without its last newline; none if it fails or is not installed.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

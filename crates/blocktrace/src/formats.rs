//! Opens a trace in any format, detected by its content.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::blktrace::Blktrace;
use crate::damage::Damage;
use crate::lines::unmarked;
use crate::source::{plain, Source};
use crate::{blkparse, csv, ftrace, iolog};

const KNOWN: &str = "blktrace's binary files, blkparse text, fio's iolog version 2 or 3, text of \
                     tracefs or perf script, CSV with the header time_ns,op,sector,sectors";

/// Open a trace: the files of one blktrace run (one per CPU), or one file of any other format.
/// Return an error if the format is unknown.
pub fn open(files: &[PathBuf]) -> Result<Box<dyn Source + Send + Sync>, Box<Damage>> {
    let Some(first) = files.first() else {
        return Err(Damage::file(Path::new("."), "no file was named").into());
    };
    let mut heads = Vec::new();
    for file in files {
        heads.push(head_of(file)?);
    }
    if heads.iter().any(|head| Blktrace::is_one(head)) {
        if let Some(strange) =
            heads.iter().position(|head| !head.is_empty() && !Blktrace::is_one(head))
        {
            return Err(Damage::file(
                &files[strange],
                "is not a binary file of blktrace, and the other files are",
            )
            .into());
        }
        return Ok(Box::new(Blktrace::open(files)?));
    }
    if heads.iter().all(Vec::is_empty) {
        return Err(Damage::file(first, "is empty: it holds no requests").into());
    }
    if files.len() > 1 {
        return Err(Damage::file(
            first,
            "several files make one trace only when they are blktrace's binary files",
        )
        .into());
    }
    open_text(first, &heads[0])
}

fn open_text(file: &Path, head: &[u8]) -> Result<Box<dyn Source + Send + Sync>, Box<Damage>> {
    let text = String::from_utf8_lossy(head);
    let text = unmarked(&text);
    let begins = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
    let (before, first) = begins.map_or((0, ""), |(before, line)| (before, line.trim()));
    let first = first.to_owned();
    if let Some(version) = iolog::version(&first) {
        if version != "2" && version != "3" {
            let damage =
                Damage::line(file, 1, "file", version, "this version of fio's iolog is not known");
            return Err(damage.allowing("2, 3").into());
        }
        return Ok(Box::new(iolog::open(file, version == "3")?));
    }
    if csv::is_header(&first) {
        return Ok(Box::new(csv::open(file, &first, before as u64 + 1)?));
    }
    if text.lines().any(ftrace::is_event) {
        return Ok(Box::new(ftrace::open(file)?));
    }
    if text.lines().any(blkparse::is_event) {
        return Ok(Box::new(blkparse::open(file)?));
    }
    let problem =
        if head.contains(&0) { "has an unknown binary format" } else { "has an unknown format" };
    let shown = if head.contains(&0) { "" } else { first.as_str() };
    Err(Damage::line(file, 1, "file", shown, problem).allowing(KNOWN).into())
}

fn head_of(file: &Path) -> Result<Vec<u8>, Box<Damage>> {
    let cannot =
        |error: std::io::Error| Damage::file(file, &format!("cannot be read: {}", plain(&error)));
    let mut head = Vec::new();
    File::open(file).map_err(cannot)?.take(1 << 16).read_to_end(&mut head).map_err(cannot)?;
    Ok(head)
}

//! A process and its descendants, with the files of /proc that tell what their threads do.

use std::fs::{read_dir, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustc_hash::FxHashMap;

use crate::numbers::{after_name, numbers};

/// Threads whose files stay open. They are descriptors of the job's process, which has other use for
/// them; files of further threads are opened for each look.
const THREADS_KEPT: usize = 24;
/// A process without children looks for them, and for new threads, in one look of so many. After the
/// first it does in each, so that short ones are seen in proportion to their time.
const LOOKS_TO_CHECK: u32 = 4;
/// A directory with n subdirectories has n + 2 links.
const OWN_LINKS: u64 = 2;

/// The processes, as found by the last look.
pub struct Family {
    root: u32,
    processes: FxHashMap<u32, Process>,
    kept: usize,
    own_thread: u32,
}

struct Process {
    /// The directory of its threads.
    task: File,
    threads: Vec<Thread>,
    stale: bool,
    /// It has started threads or children since it was found.
    grows: bool,
    looks: u32,
}

struct Thread {
    id: u32,
    files: Option<ThreadFiles>,
}

struct ThreadFiles {
    stat: File,
    wchan: File,
    children: File,
}

impl Family {
    pub fn new(root: u32) -> Self {
        // SAFETY: gettid has no arguments and does not fail.
        let own_thread = unsafe { libc::gettid() }.cast_unsigned();
        Family { root, processes: FxHashMap::default(), kept: 0, own_thread }
    }

    /// Tell the state of each thread: its letter, and the kernel function in which it sleeps.
    pub fn look(&mut self, mut found: impl FnMut(u8, &[u8])) {
        let mut before = std::mem::take(&mut self.processes);
        let mut waiting = vec![self.root];
        while let Some(id) = waiting.pop() {
            let known = before.remove(&id).map_or_else(|| Process::open(id), Ok);
            let Ok(mut process) = known else { continue }; // it has ended
            let check = process.check();
            if check {
                self.kept -= process.refresh(id, self.own_thread);
            }
            let others = waiting.len();
            for thread in &mut process.threads {
                if thread.files.is_none() && self.kept < THREADS_KEPT {
                    thread.files = ThreadFiles::open(id, thread.id).ok();
                    self.kept += usize::from(thread.files.is_some());
                }
                let children = check.then_some(&mut waiting);
                process.stale |= thread.look(id, &mut found, children).is_err();
            }
            process.grows |= waiting.len() > others;
            self.processes.insert(id, process);
        }
        self.kept -= before.values().map(Process::kept).sum::<usize>();
    }
}

impl Process {
    fn open(id: u32) -> io::Result<Self> {
        let task = File::open(format!("/proc/{id}/task"))?;
        Ok(Process { task, threads: Vec::new(), stale: true, grows: false, looks: 0 })
    }

    /// Whether this look is to look for new threads and children.
    fn check(&mut self) -> bool {
        self.looks += 1;
        self.stale || self.grows || self.looks.is_multiple_of(LOOKS_TO_CHECK)
    }

    fn kept(&self) -> usize {
        self.threads.iter().filter(|thread| thread.files.is_some()).count()
    }

    /// List its threads anew when they have changed; return of how many the files were closed.
    fn refresh(&mut self, id: u32, left_out: u32) -> usize {
        let links = self.task.metadata().map_or(0, |facts| facts.nlink());
        let listed = self.threads.len() as u64 + OWN_LINKS + u64::from(id == std::process::id());
        if !self.stale && links == listed {
            return 0;
        }
        self.stale = false;
        self.grows |= !self.threads.is_empty();
        let before = self.kept();
        let ids: Vec<u32> = read_dir(format!("/proc/{id}/task"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|&thread| thread != left_out)
            .collect();
        self.threads.retain(|thread| ids.contains(&thread.id));
        for id in ids {
            if !self.threads.iter().any(|thread| thread.id == id) {
                self.threads.push(Thread { id, files: None });
            }
        }
        before - self.kept()
    }
}

impl Thread {
    /// Tell its state and, where wanted, its children. An error means that it has ended.
    fn look(
        &self,
        process: u32,
        found: &mut impl FnMut(u8, &[u8]),
        children: Option<&mut Vec<u32>>,
    ) -> io::Result<()> {
        match &self.files {
            Some(files) => files.look(found, children),
            None => ThreadFiles::open(process, self.id)?.look(found, children),
        }
    }
}

impl ThreadFiles {
    fn open(process: u32, thread: u32) -> io::Result<Self> {
        let open = |name| File::open(format!("/proc/{process}/task/{thread}/{name}"));
        Ok(ThreadFiles { stat: open("stat")?, wchan: open("wchan")?, children: open("children")? })
    }

    fn look(
        &self,
        found: &mut impl FnMut(u8, &[u8]),
        children: Option<&mut Vec<u32>>,
    ) -> io::Result<()> {
        // The state is at the begin of the line; the kernel makes all of it in any case.
        let mut text = [0; 128];
        let length = self.stat.read_at(&mut text, 0)?;
        let letter = after_name(&text[..length]).map_or(b'?', |(letter, _)| letter);
        let mut function = [0; 64];
        let mut length = 0;
        if matches!(letter, b'S' | b'D') {
            // Of another user's process it may not be read.
            length = self.wchan.read_at(&mut function, 0).unwrap_or(0);
        }
        found(letter, &function[..length]);
        if let Some(children) = children {
            let mut text = [0; 4096];
            let length = self.children.read_at(&mut text, 0)?;
            children.extend(numbers(&text[..length]).filter_map(|id| u32::try_from(id).ok()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn threads_that_begin_and_end_are_followed() {
        let own = std::process::id();
        let mut family = Family::new(own);
        // Other tests have threads, too.
        let mut has = |thread: u32| {
            for _ in 0..LOOKS_TO_CHECK {
                family.look(|_, _| ());
            }
            family.processes[&own].threads.iter().any(|each| each.id == thread)
        };
        let (tells, told) = mpsc::channel();
        let (ends, end) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: gettid has no arguments and does not fail.
            tells.send(unsafe { libc::gettid() }.cast_unsigned()).expect("it is heard");
            end.recv()
        });
        let id = told.recv().expect("it says its number");
        assert!(has(id));
        drop(ends);
        thread.join().expect("no panic").expect_err("no message");
        // The kernel may keep the thread for a moment after its join.
        while has(id) {}
    }

    #[test]
    fn children_are_found_with_the_function_they_sleep_in() {
        let mut child =
            std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        // The thread that makes it is left out, and this one has the child.
        let elsewhere = std::thread::spawn(|| Family::new(std::process::id()));
        let mut family = elsewhere.join().expect("no panic");
        let sleeps = |family: &mut Family| {
            let mut seen = false;
            family.look(|letter, function| {
                seen |= letter == b'S' && function.windows(9).any(|part| part == b"nanosleep");
            });
            seen
        };
        while !sleeps(&mut family) {}
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        // Children of other tests sleep, too, for less than this.
        let begin = std::time::Instant::now();
        while sleeps(&mut family) {
            assert!(begin.elapsed().as_secs() < 20, "a child that has ended is found");
        }
    }
}

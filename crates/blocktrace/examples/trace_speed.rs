//! `trace_speed FILE…`: sums a trace up, or with `--tiles` lays it into tiles, on one core. Says what it found.

use std::path::PathBuf;

use headrace_blocktrace::follow::Follow;
use headrace_blocktrace::statistics::Statistics;
use headrace_blocktrace::tiles::{Tiles, Window};
use headrace_blocktrace::walk::{walk, Filter};

fn main() {
    let mut files: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let tiled = files.first().is_some_and(|first| first.as_os_str() == "--tiles");
    if tiled {
        files.remove(0);
        let window = Window {
            from_ns: 0,
            to_ns: 1 << 40,
            sector_low: 0,
            sector_high: 1 << 32,
            columns: 1200,
            rows: 400,
            groups: Default::default(),
            group_count: 8,
            exact: false,
        };
        let mut follow = Follow::new(true, Tiles::new(window));
        walk(&files, &Filter::default(), &mut follow, |_| true).expect("a trace");
        println!("{} requests in tiles", follow.follower.requests.iter().sum::<u64>());
        return;
    }
    let mut statistics = Statistics::default();
    let walked = walk(&files, &Filter::default(), &mut statistics, |_| true).expect("a trace");
    let summary = statistics.summary(&walked).expect("requests");
    println!("{} events, {} requests", summary.events, summary.total.requests);
}

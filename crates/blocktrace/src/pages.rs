//! Pages of the kernel's ring buffer as read from `trace_pipe_raw` (include/linux/ring_buffer.h,
//! kernel/trace/ring_buffer.c).
//!
//! A page consists of a time, the length of its data, and events with time differences. Bit 31 of
//! the length means that events were lost before the page, bit 30 that their number is stored after
//! the last event.

/// Positions of the fields of a page, from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub commit_offset: usize,
    pub commit_size: usize,
    pub data_offset: usize,
}

const LOST: u64 = 1 << 31;
const LOST_STORED: u64 = 1 << 30;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Upper bits of an absolute time, which do not fit in its event.
const TIME_HIGH: u64 = 0xf8 << 56;

impl Layout {
    /// Parse the text of `events/header_page`. Return `None` if a field is missing.
    pub fn parse(text: &str) -> Option<Layout> {
        let commit = field(text, "commit")?;
        let data = field(text, "data")?;
        Some(Layout { commit_offset: commit.0, commit_size: commit.1, data_offset: data.0 })
    }
}

/// Return (offset, size) of a field in one of tracefs's format texts: `field:TYPE NAME; offset:O;
/// size:S; signed:…;`
pub fn field(text: &str, name: &str) -> Option<(usize, usize)> {
    for line in text.lines() {
        let mut parts = line.trim().split(';');
        let Some(declared) = parts.next().and_then(|part| part.strip_prefix("field:")) else {
            continue;
        };
        let word = declared.rsplit(char::is_whitespace).next()?;
        if word.split('[').next() != Some(name) {
            continue;
        }
        let mut number = |key: &str| {
            parts.next().and_then(|part| {
                part.trim().strip_prefix(key)?.trim_start_matches(':').parse().ok()
            })
        };
        return Some((number("offset")?, number("size")?));
    }
    None
}

fn u32_of(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_of(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Call `each` with the time and bytes of every event of a page. Return the number of events lost
/// before the page (1 if the number is unknown), or `None` if the page is invalid from some event
/// on.
pub fn decode(page: &[u8], layout: Layout, mut each: impl FnMut(u64, &[u8])) -> Option<u64> {
    let mut time_ns = u64_of(page, 0)?;
    let commit = match layout.commit_size {
        8 => u64_of(page, layout.commit_offset)?,
        _ => u64::from(u32_of(page, layout.commit_offset)?),
    };
    let length = (commit & (LOST_STORED - 1)) as usize;
    let data = page.get(layout.data_offset..layout.data_offset + length)?;
    let mut at = 0;
    while at + 4 <= data.len() {
        let head = u32_of(data, at)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let size = match kind {
            0 => {
                let size = u32_of(data, at + 4)? as usize;
                time_ns = time_ns.wrapping_add(delta);
                each(time_ns, data.get(at + 8..at + 4 + size)?);
                4 + size
            }
            PADDING if delta == 0 => break,
            PADDING => {
                time_ns = time_ns.wrapping_add(delta);
                4 + u32_of(data, at + 4)? as usize
            }
            TIME_EXTEND => {
                time_ns = time_ns.wrapping_add(delta + (u64::from(u32_of(data, at + 4)?) << 27));
                8
            }
            TIME_STAMP => {
                time_ns =
                    (time_ns & TIME_HIGH) | (delta + (u64::from(u32_of(data, at + 4)?) << 27));
                8
            }
            words => {
                let size = words as usize * 4;
                time_ns = time_ns.wrapping_add(delta);
                each(time_ns, data.get(at + 4..at + 4 + size)?);
                4 + size
            }
        };
        at += size;
    }
    if commit & LOST == 0 {
        return Some(0);
    }
    if commit & LOST_STORED == 0 {
        return Some(1);
    }
    u64_of(page, layout.data_offset + length).map(|count| count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\t\
                          signed:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\t\
                          size:4080;\tsigned:0;\n";

    #[test]
    fn the_layout_is_read_from_the_kernels_text() {
        assert_eq!(
            Layout::parse(HEADER),
            Some(Layout { commit_offset: 8, commit_size: 8, data_offset: 16 })
        );
        assert_eq!(
            field("\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;", "rwbs"),
            Some((34, 10))
        );
        assert_eq!(Layout::parse("nothing"), None);
    }

    fn page(commit: u64, words: &[u32]) -> Vec<u8> {
        let mut page = 1000u64.to_ne_bytes().to_vec();
        page.extend(commit.to_ne_bytes());
        words.iter().for_each(|word| page.extend(word.to_ne_bytes()));
        page
    }

    #[test]
    fn times_are_differences_and_the_long_ones_have_two_words() {
        // An event of one word 5 ns later, a time extension of 1 << 27, an event with an explicit
        // length (8 bytes), padding to the end.
        let words = [1 | 5 << 5, 77, TIME_EXTEND, 1, 2 << 5, 12, 88, 99, PADDING];
        let mut seen = Vec::new();
        let layout = Layout::parse(HEADER).unwrap();
        let lost =
            decode(&page(36, &words), layout, |time, bytes| seen.push((time, bytes.to_vec())));
        assert_eq!(lost, Some(0));
        let second = [88u32.to_ne_bytes(), 99u32.to_ne_bytes()].concat();
        assert_eq!(
            seen,
            vec![(1005, 77u32.to_ne_bytes().to_vec()), (1005 + (1 << 27) + 2, second)]
        );
    }

    #[test]
    fn lost_events_are_told() {
        let layout = Layout::parse(HEADER).unwrap();
        assert_eq!(decode(&page(8 | LOST, &[1, 77]), layout, |_, _| ()), Some(1));
        assert_eq!(
            decode(&page(8 | LOST | LOST_STORED, &[1, 77, 42, 0]), layout, |_, _| ()),
            Some(42)
        );
    }

    proptest::proptest! {
        #[test]
        fn nonsense_never_panics(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)
        ) {
            let _ = decode(
                &bytes,
                Layout { commit_offset: 8, commit_size: 8, data_offset: 16 },
                |_, _| (),
            );
        }
    }
}

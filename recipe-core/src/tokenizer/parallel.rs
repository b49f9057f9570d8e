//! One long text over several threads. Knows no pieces, only where a text may be cut.
//!
//! The threads live as long as the call: nothing is started at load, and a process may fork at any time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread;

use super::split;

/// Shorter texts take less time than it takes to start a thread and to warm its caches.
pub(super) const SHORTEST: usize = 128 << 10;

/// A thread takes this much at once: small enough that none waits long for the others.
const PART: usize = 32 << 10;

/// More threads wait for memory and for each other.
const MOST_THREADS: usize = 8;

/// Appends the ids of a text that is at least [`SHORTEST`]. `encode` appends those of one part of it.
pub(super) fn encode(text: &str, ids: &mut Vec<u32>, encode: impl Fn(&str, &mut Vec<u32>) + Sync) {
    let threads = threads().min(text.len() / (2 * PART));
    let parts = if threads > 1 { parts(text) } else { Vec::new() };
    if parts.len() < 2 {
        return encode(text, ids);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::with_capacity(parts.len() / threads + 1);
        loop {
            // Only the number has to be one's own: the parts were there before the threads.
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(number) else {
                return done;
            };
            let mut ids = Vec::new();
            encode(part, &mut ids);
            done.push((number, ids));
        }
    };
    let mut done = thread::scope(|scope| {
        // Where no thread can be started, this one does it all.
        let others: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|&(number, _)| number);
    ids.reserve(done.iter().map(|(_, part)| part.len()).sum());
    done.iter().for_each(|(_, part)| ids.extend_from_slice(part));
}

/// The text in parts that can be encoded each by itself.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::with_capacity(text.len() / PART + 1);
    let mut rest = text;
    while let Some(cut) = split::cut_after(rest, PART) {
        let (part, after) = rest.split_at(cut);
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

fn threads() -> usize {
    // Asking reads files. A change of the processors that this process may use is noticed after its next start.
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS)))
}

//! A CPU profile of this process in the format of the pprof tools.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use super::encoding::Message;

/// Samples per second of CPU time.
const FREQUENCY: i32 = 100;
/// Libraries in which a signal may find locks held that unwinding needs; samples there are left out.
const NOT_SAMPLED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];
/// The frame of the profiler itself; it and the next (the kernel's trampoline) are no part of the program.
const HANDLER: &str = "perf_signal_handler";

/// Samples the CPU use for this time, and encodes the profile. Without symbols in the program, the profile has
/// addresses, which the pprof tools convert to names with the unstripped program.
///
/// # Errors Another profile is in progress, or the profiling timer cannot be set.
pub async fn record(length: Duration) -> Result<Vec<u8>, String> {
    let begun = SystemTime::now();
    let guard = ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        .blocklist(&NOT_SAMPLED)
        .build()
        .map_err(|error| error.to_string())?;
    tokio::time::sleep(length).await;
    // Looking up symbols takes a while.
    let encode = tokio::task::spawn_blocking(move || {
        let samples = samples(&guard)?;
        // Dropped before the symbols are looked up, which would be sampled too.
        drop(guard);
        let profile = encode(&samples, begun, length, &mappings());
        // The debug information that was used for names would stay in memory: up to 100 MiB.
        backtrace::clear_symbol_cache();
        Ok(profile)
    });
    encode.await.map_err(|error| error.to_string())?
}

/// A stack and how often it was seen.
struct Sample {
    /// Addresses of the frames, innermost first.
    addresses: Vec<u64>,
    thread: String,
    count: u64,
}

fn samples(guard: &ProfilerGuard<'_>) -> Result<Vec<Sample>, String> {
    let report = guard
        .report()
        .build_unresolved()
        .map_err(|error| error.to_string())?;
    let samples = report.data.iter().map(|(stack, count)| {
        let name = stack
            .thread_name
            .get(..stack.thread_name_length)
            .unwrap_or_default();
        Sample {
            addresses: stack.frames.iter().map(|frame| frame.ip() as u64).collect(),
            thread: String::from_utf8_lossy(name).into_owned(),
            count: u64::try_from(*count).unwrap_or_default(),
        }
    });
    Ok(samples.collect())
}

/// A piece of the program in memory.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    limit: u64,
    offset: u64,
    file: String,
}

impl Mapping {
    /// Encodes a mapping. `has_names`: the profile has functions, files, lines and inlined frames, so that the pprof
    /// tools need not read the program for them, which takes long. Without names they do, if they find it.
    fn message(&self, id: u64, strings: &mut Strings, has_names: bool) -> Message {
        let message = Message::new()
            .number(1, id)
            .number(2, self.start)
            .number(3, self.limit)
            .number(4, self.offset);
        let has = u64::from(has_names);
        message
            .number(5, strings.number(&self.file))
            .number(7, has)
            .number(8, has)
            .number(9, has)
            .number(10, has)
    }
}

fn mappings() -> Vec<Mapping> {
    // Without it the profile has addresses that only this process understands.
    std::fs::read_to_string("/proc/self/maps")
        .unwrap_or_default()
        .lines()
        .filter_map(parse_mapping)
        .collect()
}

/// Parses a line of `/proc/self/maps`, if it describes code in a file.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let range = words.next()?;
    let rights = words.next()?;
    let offset = words.next()?;
    let file = words.nth(2)?.to_owned();
    let (start, limit) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_code = rights.contains('x') && file.starts_with('/');
    is_code.then_some(Mapping {
        start: number(start)?,
        limit: number(limit)?,
        offset: number(offset)?,
        file,
    })
}

/// A function at an address, innermost of those inlined there first.
struct Line {
    function: String,
    /// The linker's name of the function, if it differs. The pprof tools treat names that equal their symbols as C++,
    /// and remove everything in angle brackets from them.
    symbol: String,
    file: String,
    line: u64,
}

fn resolve(address: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    // The image's program has no symbols, so that the code to look them up is left out. The pprof tools look them up
    // in the unstripped program.
    if cfg!(target_env = "musl") {
        return lines;
    }
    // The address after a call is in the next line, or the next function.
    let inside = usize::try_from(address)
        .unwrap_or_default()
        .saturating_sub(1);
    backtrace::resolve(std::ptr::without_provenance_mut(inside), |symbol| {
        let Some(name) = symbol.name() else { return };
        // Without the hash at the end.
        let function = format!("{name:#}");
        let linked = name
            .as_str()
            .filter(|symbol| *symbol != function)
            .unwrap_or_default()
            .to_owned();
        lines.push(Line {
            function,
            symbol: linked,
            file: symbol
                .filename()
                .map(|file| file.display().to_string())
                .unwrap_or_default(),
            line: u64::from(symbol.lineno().unwrap_or_default()),
        });
    });
    lines
}

/// The strings of a profile, each once.
struct Strings {
    numbers: HashMap<String, u64>,
    texts: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        // The format wants the empty string first.
        Self {
            numbers: HashMap::from([(String::new(), 0)]),
            texts: vec![String::new()],
        }
    }

    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

fn encode(
    samples: &[Sample],
    begun: SystemTime,
    length: Duration,
    mappings: &[Mapping],
) -> Vec<u8> {
    let mut profile = Message::new();
    let mut strings = Strings::new();
    let period = 1_000_000_000 / u64::try_from(FREQUENCY).unwrap_or(1);
    let mut value_type = |kind: &str, unit: &str| {
        let kind = strings.number(kind);
        let unit = strings.number(unit);
        Message::new().number(1, kind).number(2, unit)
    };
    let count = value_type("samples", "count");
    let cpu = value_type("cpu", "nanoseconds");
    profile = profile.message(1, &count).message(1, &cpu);
    let stacks = Stacks::of(samples);
    let mut locations = HashMap::new();
    let mut functions = HashMap::<(u64, u64, u64), u64>::new();
    let thread_key = strings.number("thread");
    let mut with_names = HashSet::new();
    for (sample, stack) in samples.iter().zip(&stacks.0) {
        let mut ids = Vec::new();
        for address in *stack {
            let next = locations.len() as u64 + 1;
            let id = *locations.entry(*address).or_insert(next);
            ids.push(id);
            if id != next {
                continue;
            }
            let mapping = mappings
                .iter()
                .position(|mapping| (mapping.start..mapping.limit).contains(address));
            let mapping = mapping.map_or(0, |index| index as u64 + 1);
            let mut location = Message::new()
                .number(1, id)
                .number(2, mapping)
                .number(3, *address);
            for Line {
                function,
                symbol,
                file,
                line,
            } in resolve(*address)
            {
                let names = (
                    strings.number(&function),
                    strings.number(&symbol),
                    strings.number(&file),
                );
                let next = functions.len() as u64 + 1;
                let function = *functions.entry(names).or_insert(next);
                with_names.insert(mapping);
                if function == next {
                    let (name, symbol, file) = names;
                    let message = Message::new()
                        .number(1, next)
                        .number(2, name)
                        .number(3, symbol)
                        .number(4, file);
                    profile = profile.message(5, &message);
                }
                location = location.message(4, &Message::new().number(1, function).number(2, line));
            }
            profile = profile.message(4, &location);
        }
        let thread = strings.number(&sample.thread);
        let message = Message::new()
            .numbers(1, &ids)
            .numbers(2, &[sample.count, sample.count * period])
            .message(3, &Message::new().number(1, thread_key).number(2, thread));
        profile = profile.message(2, &message);
    }
    for (mapping, id) in mappings.iter().zip(1..) {
        let message = mapping.message(id, &mut strings, with_names.contains(&id));
        profile = profile.message(3, &message);
    }
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    profile = profile
        .number(
            9,
            nanoseconds(begun.duration_since(UNIX_EPOCH).unwrap_or_default()),
        )
        .number(10, nanoseconds(length))
        .message(11, &cpu)
        .number(12, period);
    for text in &strings.texts {
        profile = profile.text(6, text);
    }
    profile.into_bytes()
}

/// The stacks of samples without the frames of the profiler.
struct Stacks<'a>(Vec<&'a [u64]>);

impl<'a> Stacks<'a> {
    fn of(samples: &'a [Sample]) -> Self {
        let shared = shared_beginning(samples);
        let named = samples.first().and_then(|sample| {
            let is_handler = |address: &u64| {
                resolve(*address)
                    .iter()
                    .any(|line| line.function.contains(HANDLER))
            };
            // The trampoline is the next frame.
            sample
                .addresses
                .iter()
                .position(is_handler)
                .map(|at| at + 2)
        });
        // Without symbols: all stacks begin with these frames, and hardly with anything else that is the same for all.
        let skipped = named.unwrap_or(shared);
        Self(
            samples
                .iter()
                .map(|sample| sample.addresses.get(skipped..).unwrap_or_default())
                .collect(),
        )
    }
}

/// Returns the number of frames that all stacks begin with, leaving at least one frame of each.
fn shared_beginning(samples: &[Sample]) -> usize {
    let [first, others @ ..] = samples else {
        return 0;
    };
    if others.is_empty() {
        return 0;
    }
    let shortest = samples
        .iter()
        .map(|sample| sample.addresses.len())
        .min()
        .unwrap_or_default();
    let is_shared = |at: &usize| {
        others
            .iter()
            .all(|other| other.addresses.get(*at) == first.addresses.get(*at))
    };
    (0..shortest.saturating_sub(1))
        .take_while(is_shared)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_files_is_mapped() {
        let line = "55d0a000-55d0b000 r-xp 00001000 08:01 1234      /usr/bin/program";
        let expected = Mapping {
            start: 0x55d0_a000,
            limit: 0x55d0_b000,
            offset: 0x1000,
            file: "/usr/bin/program".into(),
        };
        assert_eq!(parse_mapping(line), Some(expected));
        for other in [
            "7f00-7f01 rw-p 00000000 08:01 1234 /usr/lib/x.so",
            "7ffc-7ffd r-xp 00000000 00:00 0 [vdso]",
            "",
        ] {
            assert_eq!(parse_mapping(other), None, "{other}");
        }
    }

    #[test]
    fn the_frames_of_the_profiler_are_those_that_all_stacks_begin_with() {
        let sample = |addresses: &[u64]| Sample {
            addresses: addresses.to_vec(),
            thread: String::new(),
            count: 1,
        };
        let samples = [
            sample(&[1, 2, 3, 10, 20]),
            sample(&[1, 2, 3, 11, 20]),
            sample(&[1, 2, 3, 10, 21]),
        ];
        assert_eq!(shared_beginning(&samples), 3);
        assert_eq!(
            shared_beginning(&samples[..1]),
            0,
            "one stack tells nothing"
        );
        assert_eq!(
            shared_beginning(&[sample(&[1, 2]), sample(&[1, 2])]),
            1,
            "something is left"
        );
    }
}

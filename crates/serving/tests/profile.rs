//! A real profile of this process; alone in its program, because the profiler is there only once.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serving::debug::profile::record;

#[inline(never)]
fn a_function_that_burns_the_processor(stop: &AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for n in 0..10_000_u64 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(n));
        }
    }
    sum
}

/// Returns the fields of a message: number and content (numbers as numbers, everything else as bytes).
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

#[derive(Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let (byte, rest) = bytes.split_first().expect("the number goes on");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
        shift += 7;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_function_is_in_the_profile_by_name_and_a_second_profile_is_refused() {
    let before = resident();
    let stop = Arc::new(AtomicBool::new(false));
    let burner = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || a_function_that_burns_the_processor(&stop))
    };
    let length = Duration::from_millis(500);
    let (one, other) = tokio::join!(record(length), record(length));
    let (Ok(mut profile), Err(problem)) = (if one.is_ok() {
        (one, other)
    } else {
        (other, one)
    }) else {
        panic!("of two profiles at a time exactly one is taken")
    };
    assert!(!problem.is_empty());
    // On a busy machine, half a second is too short to be sampled.
    let name = b"a_function_that_burns_the_processor";
    let began = std::time::Instant::now();
    while !profile.windows(name.len()).any(|text| text == name)
        && began.elapsed() < Duration::from_secs(60)
    {
        profile = record(length).await.unwrap();
    }
    for _ in 0..12 {
        record(Duration::from_millis(50)).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    burner.join().unwrap();
    // The profiler keeps its table of samples, 67 MiB, until the process ends, and some allocators a few of them.
    let left = resident() - before;
    assert!(
        left < 400,
        "twelve profiles leave {left} MiB: each of them some"
    );
    let profile = fields(&profile);
    let strings: Vec<String> = profile
        .iter()
        .filter_map(|(number, field)| match field {
            Field::Bytes(text) if *number == 6 => Some(String::from_utf8(text.clone()).unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(strings[0], "");
    for text in ["samples", "count", "cpu", "nanoseconds", "thread"] {
        assert!(strings.iter().any(|string| string == text), "{text}");
    }
    let busy = strings
        .iter()
        .any(|text| text.contains("a_function_that_burns_the_processor"));
    assert!(busy, "{strings:?}");
    assert!(
        !strings
            .iter()
            .any(|text| text.contains("perf_signal_handler")),
        "the profiler is left out"
    );
    // Go's tools need these fields: otherwise they remove `<…>` from names, and read the whole program to find names
    // again.
    let parts = |wanted| {
        let messages = profile.iter().filter(move |(number, _)| *number == wanted);
        messages.filter_map(|(_, field)| match field {
            Field::Bytes(message) => Some(fields(message)),
            Field::Number(_) => None,
        })
    };
    let number = |message: &[(u64, Field)], wanted| {
        message.iter().find_map(|(number, field)| match field {
            Field::Number(value) if *number == wanted => Some(*value),
            _ => None,
        })
    };
    assert!(
        parts(5).all(|function| number(&function, 2) != number(&function, 3)),
        "names are not taken for symbols"
    );
    assert!(parts(3).any(|mapping| (7..=10).all(|has| number(&mapping, has) == Some(1))));
    let count = |wanted| {
        profile
            .iter()
            .filter(|(number, _)| *number == wanted)
            .count()
    };
    assert_eq!((count(1), count(9), count(10), count(12)), (2, 1, 1, 1));
    assert!(count(2) > 0 && count(3) > 0 && count(4) > 0 && count(5) > 0);
    let Some((_, Field::Number(period))) = profile.iter().find(|(number, _)| *number == 12) else {
        panic!()
    };
    assert_eq!(*period, 10_000_000);
}

/// Returns resident memory of this process in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    resident
        .and_then(|kib| kib.parse::<u64>().ok())
        .expect("resident memory in KiB")
        / 1024
}

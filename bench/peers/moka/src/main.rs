//! moka as a peer of bench_cache; ../../README.md tells how the two talk.

mod workload;

use std::io::{BufRead, Write};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use workload::{Draws, Workload, BATCH};

/// What a lookup hands back is a copy of the value, so large ones are shared, as moka's documentation advises.
trait Value: Clone + Send + Sync + 'static {
    fn make(key: u64, bytes: usize) -> Self;
    fn first_word(&self) -> u64;
}

impl Value for u64 {
    fn make(key: u64, _bytes: usize) -> Self {
        key
    }
    fn first_word(&self) -> u64 {
        *self
    }
}

impl Value for Arc<[u64]> {
    fn make(key: u64, bytes: usize) -> Self {
        let mut words = vec![0; bytes / 8];
        words[0] = key;
        words.into()
    }
    fn first_word(&self) -> u64 {
        self[0]
    }
}

type Cache<V> = moka::sync::Cache<u64, V, ahash::RandomState>;

fn fill<V: Value>(workload: &Workload) -> Cache<V> {
    let cache = moka::sync::Cache::builder()
        .max_capacity(workload.capacity)
        .build_with_hasher(ahash::RandomState::default());
    for number in 0..workload.keys {
        let key = workload.key_of(number);
        cache.insert(key, V::make(key, workload.value_bytes));
    }
    cache.run_pending_tasks();
    cache
}

fn batch<V: Value>(cache: &Cache<V>, draws: &mut Draws, value_bytes: usize) {
    let mut seen = 0;
    for _ in 0..BATCH {
        let key = draws.next_key();
        if draws.is_write() {
            cache.insert(key, V::make(key, value_bytes));
        } else {
            seen ^= cache.get(&key).expect("a miss, of which there is none").first_word();
        }
    }
    std::hint::black_box(seen);
}

/// Operations per second of all threads, from the first one's start to the last one's end.
fn run<V: Value>(cache: &Cache<V>, workload: &Workload, span: Duration) -> f64 {
    let start = Barrier::new(workload.threads);
    let work = |thread| {
        let mut draws = Draws::new(workload, thread);
        start.wait();
        let begin = Instant::now();
        let mut ops = 0;
        loop {
            batch(cache, &mut draws, workload.value_bytes);
            ops += BATCH;
            let now = Instant::now();
            if now - begin >= span {
                return (begin, now, ops);
            }
        }
    };
    let runs: Vec<(Instant, Instant, u64)> = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..workload.threads).map(|thread| scope.spawn(move || work(thread))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a thread failed")).collect()
    });
    let begin = runs.iter().map(|run| run.0).min().expect("no thread");
    let end = runs.iter().map(|run| run.1).max().expect("no thread");
    runs.iter().map(|run| run.2).sum::<u64>() as f64 / (end - begin).as_secs_f64()
}

fn serve<V: Value>(workload: &Workload) -> Result<(), String> {
    let cache = fill::<V>(workload);
    if workload.warm_up_ms > 0 {
        run(&cache, workload, Duration::from_millis(workload.warm_up_ms));
    }
    let say = |text: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| error.to_string())
    };
    say("ready".to_string())?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let (verb, number) = line.split_once(' ').unwrap_or((&line, ""));
        match (verb, number.parse()) {
            ("run", Ok(millis)) => say(format!("{:.0}", run(&cache, workload, Duration::from_millis(millis))))?,
            ("checksum", Ok(count)) => say(Draws::new(workload, 0).checksum(count as usize).to_string())?,
            _ => return Err(format!("bad request: {line}")),
        }
    }
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let served = Workload::parse(&args).and_then(|workload| match workload.value_bytes {
        8 => serve::<u64>(&workload),
        _ => serve::<Arc<[u64]>>(&workload),
    });
    if let Err(error) = served {
        eprintln!("moka-driver: {error}");
        std::process::exit(2);
    }
}

//! What ../../README.md says a driver is told, and the keys that follow from it.

pub const BATCH: u64 = 256;

const FIRST_STATE: u64 = 0x9E3779B97F4A7C15;

pub struct Workload {
    pub keys: u64,
    pub threads: usize,
    pub value_bytes: usize,
    pub warm_up_ms: u64,
    pub capacity: u64,
    writes_of_1024: u64,
    mask: u64,
    is_random: bool,
    zipf: Option<Vec<u32>>, // None: keys are drawn evenly.
}

impl Workload {
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut workload = Self {
            keys: 1024,
            threads: 1,
            value_bytes: 8,
            warm_up_ms: 1000,
            capacity: 0,
            writes_of_1024: 0,
            mask: 0,
            is_random: false,
            zipf: None,
        };
        let mut distribution = "uniform".to_string();
        for pair in args.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
            match name.as_str() {
                "--keys" => workload.keys = number()?,
                "--threads" => workload.threads = number()? as usize,
                "--value-bytes" => workload.value_bytes = number()? as usize,
                "--writes-percent" => workload.writes_of_1024 = number()? * 1024 / 100,
                "--warm-up-ms" => workload.warm_up_ms = number()?,
                "--capacity" => workload.capacity = number()?,
                "--distribution" if ["uniform", "zipf", "hot-key"].contains(&value.as_str()) => {
                    distribution = value.clone()
                }
                "--key-kind" if value == "dense" || value == "random" => workload.is_random = value == "random",
                _ => return Err(format!("bad option {name} {value}")),
            }
        }
        let valid = workload.keys.is_power_of_two()
            && workload.keys <= 1 << 24
            && (1..=1024).contains(&workload.threads)
            && workload.value_bytes >= 8
            && workload.value_bytes % 8 == 0
            && workload.writes_of_1024 <= 1024;
        if !valid {
            return Err(format!("bad workload: {}", args.join(" ")));
        }
        if workload.capacity == 0 {
            workload.capacity = 2 * workload.keys + (1 << 16);
        }
        workload.mask = if distribution == "hot-key" { 0 } else { workload.keys - 1 };
        if distribution == "zipf" {
            workload.zipf = Some(draw_zipf(workload.keys as usize));
        }
        Ok(workload)
    }

    /// The key of a number from 0 to keys - 1.
    #[inline]
    pub fn key_of(&self, number: u64) -> u64 {
        if !self.is_random {
            return number;
        }
        let key = (number + 1).wrapping_mul(0x9E3779B97F4A7C15);
        let key = (key ^ (key >> 32)).wrapping_mul(0xD6E8FEB86659FD93);
        key ^ (key >> 32)
    }
}

fn next_state(state: u64) -> u64 {
    state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407)
}

/// Where a thread is in its sequence of operations.
pub struct Draws<'a> {
    workload: &'a Workload,
    state: u64,
    position: usize,
}

impl<'a> Draws<'a> {
    pub fn new(workload: &'a Workload, thread: usize) -> Self {
        let state = FIRST_STATE.wrapping_mul(thread as u64 + 1);
        Self { workload, state, position: (state >> 33) as usize }
    }

    #[inline]
    pub fn next_key(&mut self) -> u64 {
        self.state = next_state(self.state);
        let number = match &self.workload.zipf {
            None => (self.state >> 33) & self.workload.mask,
            Some(drawn) => {
                self.position += 1;
                u64::from(drawn[(self.position - 1) & (drawn.len() - 1)])
            }
        };
        self.workload.key_of(number)
    }

    /// Whether the key that was drawn last is to be written.
    #[inline]
    pub fn is_write(&self) -> bool {
        self.state >> 54 < self.workload.writes_of_1024
    }

    /// Tells whether the bench draws the same.
    pub fn checksum(mut self, count: usize) -> u64 {
        (0..count).fold(0u64, |sum, _| {
            let key = self.next_key();
            sum.wrapping_mul(31).wrapping_add(key.wrapping_mul(2)).wrapping_add(u64::from(self.is_write()))
        })
    }
}

/// Drawn beforehand: the inverse of Zipf's distribution costs more than a lookup.
fn draw_zipf(keys: usize) -> Vec<u32> {
    // In integers, so that another language's pow() makes no difference.
    let mut sum = 0;
    let cumulated: Vec<u64> = (1..=keys)
        .map(|rank| {
            sum += ((rank as f64).powf(-0.99) * (1u64 << 31) as f64) as u64;
            sum
        })
        .collect();
    let mut state = FIRST_STATE;
    (0..1 << 20)
        .map(|_| {
            state = next_state(state);
            let point = ((state >> 36) * sum) >> 28;
            let rank = cumulated.partition_point(|&upto| upto <= point) as u64;
            (rank.wrapping_mul(0x9E3779B1) & (keys as u64 - 1)) as u32 // So that hot keys are no neighbours.
        })
        .collect()
}

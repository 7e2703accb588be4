import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.CyclicBarrier;

/** Caffeine as a peer of bench_cache; ../README.md tells how the two talk. */
final class CaffeineDriver {
  private interface Values<V> {
    V make(long key);

    long firstWord(V value);
  }

  private static volatile long sink;

  private static final class Bench<V> {
    private final Workload workload;
    private final Values<V> values;
    private final Cache<Long, V> cache;

    Bench(Workload workload, Values<V> values) {
      this.workload = workload;
      this.values = values;
      cache = Caffeine.newBuilder().maximumSize(workload.capacity).build();
      for (long number = 0; number < workload.keys; ++number) {
        long key = workload.keyOf(number);
        cache.put(key, values.make(key));
      }
      cache.cleanUp();
    }

    private void batch(Workload.Draws draws) {
      long seen = 0;
      for (int i = 0; i < Workload.BATCH; ++i) {
        long key = draws.nextKey();
        if (draws.isWrite()) {
          cache.put(key, values.make(key));
        } else {
          // A null here would be a miss, of which there is none: it ends the driver.
          seen ^= values.firstWord(cache.getIfPresent(key));
        }
      }
      sink ^= seen;
    }

    /** Operations per second of all threads, from the first one's start to the last one's end. */
    double run(long millis) throws Exception {
      int threads = workload.threads;
      long[] begins = new long[threads];
      long[] ends = new long[threads];
      long[] ops = new long[threads];
      CyclicBarrier start = new CyclicBarrier(threads);
      Thread[] workers = new Thread[threads];
      for (int i = 0; i < threads; ++i) {
        int thread = i;
        workers[i] = new Thread(() -> {
          Workload.Draws draws = workload.new Draws(thread);
          awaitAll(start);
          long begin = System.nanoTime();
          long done = 0;
          long now;
          do {
            batch(draws);
            done += Workload.BATCH;
            now = System.nanoTime();
          } while (now - begin < millis * 1_000_000);
          begins[thread] = begin;
          ends[thread] = now;
          ops[thread] = done;
        });
        workers[i].start();
      }
      long total = 0;
      long begin = 0;
      long end = 0;
      for (int i = 0; i < threads; ++i) {
        workers[i].join();
        if (ops[i] == 0) throw new IllegalStateException("a thread failed");
        if (i == 0 || begins[i] - begin < 0) begin = begins[i];
        if (i == 0 || ends[i] - end > 0) end = ends[i];
        total += ops[i];
      }
      return total * 1e9 / (end - begin);
    }

    private static void awaitAll(CyclicBarrier barrier) {
      try {
        barrier.await();
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }

    void serve() throws Exception {
      // In short runs, so that what the compiler makes of a run is what later runs use.
      for (int millis = 0; millis < workload.warmUpMillis; millis += 50) run(50);
      System.out.println("ready");
      BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
      for (String line = requests.readLine(); line != null; line = requests.readLine()) {
        String[] request = line.split(" ");
        int number = Integer.parseInt(request[1]);
        System.out.println(switch (request[0]) {
          case "run" -> String.format(Locale.ROOT, "%.0f", run(number));
          case "checksum" -> Long.toUnsignedString(workload.new Draws(0).checksum(number));
          case "replay" -> Long.toString(replay(number, Path.of(line.split(" ", 3)[2])));
          default -> throw new IllegalArgumentException("bad request: " + line);
        });
      }
    }
  }

  /**
   * The requests that hit a cache with room for so many keys, which begins empty. The file has one key per line. Maintenance
   * runs on the calling thread, so that nothing depends on when another thread runs.
   */
  private static long replay(int room, Path file) throws Exception {
    Cache<Long, Boolean> cache = Caffeine.newBuilder().maximumSize(room).executor(Runnable::run).build();
    long hits = 0;
    try (BufferedReader keys = Files.newBufferedReader(file)) {
      for (String line = keys.readLine(); line != null; line = keys.readLine()) {
        Long key = Long.valueOf(line);
        if (cache.getIfPresent(key) != null) {
          ++hits;
        } else {
          cache.put(key, Boolean.TRUE);
        }
      }
    }
    return hits;
  }

  private static final class Words implements Values<Long> {
    @Override
    public Long make(long key) {
      return key;
    }

    @Override
    public long firstWord(Long value) {
      return value;
    }
  }

  private record Arrays(int words) implements Values<long[]> {
    @Override
    public long[] make(long key) {
      long[] value = new long[words];
      value[0] = key;
      return value;
    }

    @Override
    public long firstWord(long[] value) {
      return value[0];
    }
  }

  public static void main(String[] args) throws Exception {
    Workload workload = new Workload(args);
    if (workload.valueBytes == 8) {
      new Bench<>(workload, new Words()).serve();
    } else {
      new Bench<>(workload, new Arrays(workload.valueBytes / 8)).serve();
    }
  }
}

/** What ../README.md says a driver is told, and the keys that follow from it. */
final class Workload {
  static final int BATCH = 256;

  final long keys;
  final int threads;
  final int valueBytes;
  final int warmUpMillis;
  final long capacity;
  private final int writesOf1024;
  private final int[] zipf; // Null: keys are drawn evenly.
  private final long mask;
  private final boolean isRandom;

  Workload(String[] args) {
    long keys = 1024;
    int threads = 1;
    int valueBytes = 8;
    int warmUpMillis = 1000;
    int writesPercent = 0;
    long capacity = 0;
    boolean isZipf = false;
    boolean isHotKey = false;
    boolean isRandom = false;
    for (int i = 0; i < args.length; i += 2) {
      if (i + 1 == args.length) throw new IllegalArgumentException(args[i] + " needs a value");
      String value = args[i + 1];
      switch (args[i]) {
        case "--keys" -> keys = Long.parseLong(value);
        case "--threads" -> threads = Integer.parseInt(value);
        case "--value-bytes" -> valueBytes = Integer.parseInt(value);
        case "--writes-percent" -> writesPercent = Integer.parseInt(value);
        case "--warm-up-ms" -> warmUpMillis = Integer.parseInt(value);
        case "--distribution" -> {
          isZipf = value.equals("zipf");
          isHotKey = value.equals("hot-key");
          if (!isZipf && !isHotKey && !value.equals("uniform")) throw new IllegalArgumentException(value);
        }
        case "--key-kind" -> {
          isRandom = value.equals("random");
          if (!isRandom && !value.equals("dense")) throw new IllegalArgumentException(value);
        }
        case "--capacity" -> capacity = Long.parseLong(value);
        default -> throw new IllegalArgumentException("unknown option " + args[i]);
      }
    }
    if (Long.bitCount(keys) != 1 || keys < 1 || keys > 1 << 24 || threads < 1 || threads > 1024
        || valueBytes < 8 || valueBytes % 8 != 0 || writesPercent < 0 || writesPercent > 100) {
      throw new IllegalArgumentException("bad workload: " + String.join(" ", args));
    }
    this.keys = keys;
    this.capacity = capacity > 0 ? capacity : 2 * keys + (1 << 16);
    this.threads = threads;
    this.valueBytes = valueBytes;
    this.warmUpMillis = warmUpMillis;
    this.writesOf1024 = writesPercent * 1024 / 100;
    this.zipf = isZipf ? drawZipf((int) keys) : null;
    this.mask = isHotKey ? 0 : keys - 1;
    this.isRandom = isRandom;
  }

  /** The key of a number from 0 to keys - 1. */
  long keyOf(long number) {
    if (!isRandom) return number;
    long key = (number + 1) * 0x9E3779B97F4A7C15L;
    key = (key ^ (key >>> 32)) * 0xD6E8FEB86659FD93L;
    return key ^ (key >>> 32);
  }

  /** Where a thread is in its sequence of operations. */
  final class Draws {
    private long state;
    private int position;

    Draws(int thread) {
      state = 0x9E3779B97F4A7C15L * (thread + 1);
      if (zipf != null) position = (int) (state >>> 33);
    }

    long nextKey() {
      state = state * 6364136223846793005L + 1442695040888963407L;
      return keyOf(zipf != null ? zipf[position++ & (zipf.length - 1)] : (state >>> 33) & mask);
    }

    /** Whether the key that was drawn last is to be written. */
    boolean isWrite() {
      return (state >>> 54) < writesOf1024;
    }

    /** Tells whether the bench draws the same. */
    long checksum(int count) {
      long sum = 0;
      for (int i = 0; i < count; ++i) sum = sum * 31 + 2 * nextKey() + (isWrite() ? 1 : 0);
      return sum;
    }
  }

  /** Drawn beforehand: the inverse of Zipf's distribution costs more than a lookup. */
  private static int[] drawZipf(int keys) {
    // In integers, so that another language's pow() makes no difference.
    long[] cumulated = new long[keys];
    long sum = 0;
    for (int i = 0; i < keys; ++i) cumulated[i] = sum += (long) (Math.pow(i + 1, -0.99) * 0x1p31);
    int[] drawn = new int[1 << 20];
    long state = 0x9E3779B97F4A7C15L;
    for (int i = 0; i < drawn.length; ++i) {
      state = state * 6364136223846793005L + 1442695040888963407L;
      long point = ((state >>> 36) * sum) >>> 28;
      int found = java.util.Arrays.binarySearch(cumulated, point);
      long rank = found < 0 ? -found - 1 : found + 1;
      drawn[i] = (int) ((rank * 0x9E3779B1L) & (keys - 1)); // So that hot keys are no neighbours.
    }
    return drawn;
  }
}

// Reads and writes files in the ways that Java has: streams, channels, random access, maps.
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;

public class Reader {
    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of("numbers"));
        long sum = lines.stream().mapToLong(Long::parseLong).sum();
        try (RandomAccessFile file = new RandomAccessFile("numbers", "r")) {
            for (int n = 0; n < 200; ++n) {
                file.seek(n * 97L);
                sum += file.read();
            }
        }
        try (FileChannel out = FileChannel.open(Path.of("mapped"), StandardOpenOption.CREATE,
                StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer map = out.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 16);
            for (int n = 0; n < 1 << 13; ++n) map.putLong(n);
            map.force();
            out.write(ByteBuffer.wrap("the end".getBytes()), 1 << 16);
        }
        Thread[] writers = new Thread[4];
        for (int n = 0; n < writers.length; ++n) {
            Path path = Path.of("of thread " + n);
            writers[n] = new Thread(() -> {
                try {
                    Files.write(path, lines);
                } catch (java.io.IOException error) {
                    throw new RuntimeException(error);
                }
            });
            writers[n].start();
        }
        for (Thread each : writers) each.join();
        Files.copy(Path.of("of thread 0"), Path.of("copy"));
        System.out.println(sum);
    }
}

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.io.FileWriter;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.util.Properties;

/**
 * Debezium's embedded engine: java Capture.java PROPERTIES EVENTS appends a line for each change event to the file
 * EVENTS: topic, key and value, with tabs between them. "#start" is the line before the first event of each start: a
 * line in front of it may be cut off. When the engine ends with an error it is started again. SIGTERM ends it in order.
 */
public class Capture {
	private static volatile DebeziumEngine<ChangeEvent<String, String>> engine;
	private static volatile boolean ending;

	public static void main(String[] args) throws Exception {
		Properties properties = new Properties();
		try (Reader in = new FileReader(args[0])) {
			properties.load(in);
		}
		Runtime.getRuntime().addShutdownHook(new Thread(Capture::end));
		try (Writer out = new FileWriter(args[1], true)) {
			write(out, "\n#start\n");
			while (!ending) {
				engine = DebeziumEngine.create(Json.class)
						.using(properties)
						.using((success, message, error) -> System.err.println("engine: " + message))
						.notifying(event -> write(out,
								event.destination() + "\t" + event.key() + "\t" + event.value() + "\n"))
						.build();
				engine.run();
				Thread.sleep(500);
			}
		}
	}

	private static void end() {
		ending = true;
		try {
			engine.close();
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
	}

	private static void write(Writer out, String text) {
		try {
			out.write(text);
			out.flush();
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
	}
}

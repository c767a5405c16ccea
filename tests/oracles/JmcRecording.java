// SPDX-License-Identifier: Apache-2.0
/*
 * A recording by the writer of JDK Mission Control, and what its parser reads of one.
 *
 *     JmcRecording write FILE     frames of stacks are references into a pool; each kind of field stands in an
 *                                 event, alone and as an array
 *     JmcRecording read FILE      a line for each event with a stack: TYPE SPAN FRAMES, the outermost one first
 */
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.openjdk.jmc.common.IMCFrame;
import org.openjdk.jmc.common.IMCStackTrace;
import org.openjdk.jmc.common.item.IAccessorKey;
import org.openjdk.jmc.common.item.IItem;
import org.openjdk.jmc.common.item.IItemIterable;
import org.openjdk.jmc.common.item.IMemberAccessor;
import org.openjdk.jmc.flightrecorder.JfrAttributes;
import org.openjdk.jmc.flightrecorder.JfrLoaderToolkit;
import org.openjdk.jmc.flightrecorder.writer.api.Recording;
import org.openjdk.jmc.flightrecorder.writer.api.Recordings;
import org.openjdk.jmc.flightrecorder.writer.api.Type;
import org.openjdk.jmc.flightrecorder.writer.api.TypedValue;
import org.openjdk.jmc.flightrecorder.writer.api.TypedValueBuilder;
import org.openjdk.jmc.flightrecorder.writer.api.Types;
import org.openjdk.jmc.flightrecorder.writer.api.Types.Builtin;

public final class JmcRecording {
    static final Builtin[] KINDS = Builtin.values();

    static void method(TypedValueBuilder method, String type, String name) {
        method.putField("type", value -> value.putField("name", type).putField("modifiers", 1));
        method.putField("name", name).putField("descriptor", "()V").putField("modifiers", 1).putField("hidden", false);
    }

    static TypedValue frame(Types types, String type, String name, int line) {
        return types.getType(Types.JDK.STACK_FRAME).asValue(value -> {
            value.putField("method", method -> method(method, type, name));
            value.putField("lineNumber", line).putField("bytecodeIndex", -1).putField("type", "Interpreted");
        });
    }

    static void putOne(TypedValueBuilder event, Builtin kind, int n) {
        String name = "one" + kind;

        switch (kind) {
        case BOOLEAN -> event.putField(name, n % 2 == 0);
        case BYTE -> event.putField(name, (byte) n);
        case CHAR -> event.putField(name, (char) ('a' + n % 26));
        case SHORT -> event.putField(name, (short) n);
        case INT -> event.putField(name, n);
        case LONG -> event.putField(name, (long) n << 40);
        case FLOAT -> event.putField(name, n / 3f);
        case DOUBLE -> event.putField(name, n / 3d);
        case STRING -> event.putField(name, n % 3 == 0 ? "" : "text \u20ac " + n % 5);
        }
    }

    static void putMany(TypedValueBuilder values, Builtin kind, int n) {
        String name = "many" + kind;

        switch (kind) {
        case BOOLEAN -> values.putField(name, new boolean[] { true, false });
        case BYTE -> values.putField(name, new byte[] { 1, -2, (byte) n });
        case CHAR -> values.putField(name, new char[] { 'x', '\u20ac' });
        case SHORT -> values.putField(name, new short[] { 1, -2 });
        case INT -> values.putField(name, new int[] { 1, -2, n });
        case LONG -> values.putField(name, new long[] { 1, -2, Long.MIN_VALUE });
        case FLOAT -> values.putField(name, new float[] { 1, Float.NaN });
        case DOUBLE -> values.putField(name, new double[] { 1, Double.NaN });
        case STRING -> values.putField(name, new String[] { "a", "", "text" });
        }
    }

    static void write(Path file) throws Exception {
        Random random = new Random(1);

        try (Recording recording = Recordings.newRecording(file)) {
            Types types = recording.getTypes();
            Type many = recording.registerType("shop.Values", type -> {
                for (Builtin kind : KINDS)
                    type.addField("many" + kind, kind, field -> field.asArray());
            });
            Type event = recording.registerEventType("datadog.ExecutionSample", type -> {
                type.addField("spanId", Builtin.LONG).addField("localRootSpanId", Builtin.LONG);
                for (Builtin kind : KINDS)
                    type.addField("one" + kind, kind);
                type.addField("values", many);
            });

            for (int i = 0; i < 2000; i++) {
                int n = i, salt = random.nextInt(12);
                TypedValue[] frames = new TypedValue[1 + random.nextInt(60)];

                for (int j = 0; j < frames.length; j++)
                    frames[j] = frame(types, "shop.part" + salt % 3 + ".Class" + (salt + j) % 9,
                            "method" + (salt * 7 + j) % 5, 10 + (salt + j) % 40);
                recording.writeEvent(event.asValue(value -> {
                    value.putField("startTime", System.nanoTime());
                    value.putField("spanId", 1L + n % 4).putField("localRootSpanId", 9L);
                    value.putField("stackTrace", stack -> stack.putField("frames", frames).putField("truncated", false));
                    for (Builtin kind : KINDS)
                        putOne(value, kind, n);
                    value.putField("values", values -> {
                        for (Builtin kind : KINDS)
                            putMany(values, kind, n);
                    });
                }));
            }
        }
    }

    static void print(IItemIterable items) {
        IMemberAccessor<IMCStackTrace, IItem> stack = JfrAttributes.EVENT_STACKTRACE.getAccessor(items.getType());
        IMemberAccessor<?, IItem> span = null;

        if (stack == null)
            return;
        for (IAccessorKey<?> key : items.getType().getAccessorKeys().keySet())
            if (key.getIdentifier().equals("spanId"))
                span = items.getType().getAccessor(key);
        for (IItem item : items) {
            List<String> frames = new ArrayList<>();
            IMCStackTrace trace = stack.getMember(item);

            if (trace == null)
                continue;
            for (IMCFrame frame : trace.getFrames())
                frames.add(0, frame.getMethod().getType().getFullName() + "." + frame.getMethod().getMethodName()
                        + ":" + frame.getFrameLineNumber());
            System.out.println(items.getType().getIdentifier() + " " + (span == null ? "-" : span.getMember(item))
                    + " " + String.join(";", frames));
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write"))
            write(Path.of(arguments[1]));
        else
            for (IItemIterable items : JfrLoaderToolkit.loadEvents(Path.of(arguments[1]).toFile()))
                print(items);
    }
}

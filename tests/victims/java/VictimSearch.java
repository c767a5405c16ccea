// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.Random;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.queryparser.classic.ParseException;
import org.apache.lucene.queryparser.classic.QueryParser;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.SortField;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.store.Directory;

/*
 * A program that searches texts with Lucene: it writes an index in its memory, changes it, and asks it words,
 * phrases, words that begin or are written alike, sorted or by how well they fit.
 *
 * usage: java -cp LUCENE-JARS:. VictimSearch SECONDS
 *
 * Prints `ready` once each query has run; SECONDS of the process' CPU time later it ends.
 */
public class VictimSearch {
    static final int DOCUMENTS = 4000, WORDS = 60, CHANGED = 60;
    static final String[] QUERIES = {
        "w1 w7", "+w3 +w20 -w4", "\"w2 w5\"~6", "w12*", "w345~1", "(w9 OR w90) AND w1"
    };

    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    static Document document(int i, Random random) {
        StringBuilder text = new StringBuilder();
        for (int k = 0; k < WORDS; k++)     // few words are frequent, as in a language
            text.append('w').append((int) Math.exp(random.nextDouble() * 8)).append(' ');
        Document document = new Document();
        document.add(new StringField("id", Integer.toString(i), Field.Store.YES));
        document.add(new TextField("text", text.toString(), Field.Store.YES));
        document.add(new NumericDocValuesField("price", random.nextInt(1000)));
        return document;
    }

    static int search(IndexWriter writer) throws IOException, ParseException {
        int found = 0;
        try (DirectoryReader reader = DirectoryReader.open(writer)) {
            IndexSearcher searcher = new IndexSearcher(reader);
            QueryParser parser = new QueryParser("text", new StandardAnalyzer());
            for (String query : QUERIES) {
                for (ScoreDoc hit : searcher.search(parser.parse(query), 20).scoreDocs)
                    found += searcher.storedFields().document(hit.doc).get("text").length();
                found += searcher.search(parser.parse(query), 20,
                        new Sort(new SortField("price", SortField.Type.LONG))).scoreDocs.length;
            }
        }
        return found;
    }

    public static void main(String[] words) throws IOException, ParseException {
        Random random = new Random(1);
        long end = cpuNs() + Long.parseLong(words[0]) * 1_000_000_000L;
        try (Directory directory = new ByteBuffersDirectory();
             IndexWriter writer = new IndexWriter(directory, new IndexWriterConfig(new StandardAnalyzer()))) {
            for (int i = 0; i < DOCUMENTS; i++)
                writer.addDocument(document(i, random));
            for (int turn = 0; cpuNs() < end; turn++) {
                for (int k = 0; k < CHANGED; k++) {
                    int i = random.nextInt(DOCUMENTS);
                    writer.updateDocument(new Term("id", Integer.toString(i)), document(i, random));
                }
                for (int k = 0; k < 5; k++)
                    if (search(writer) == 0)
                        throw new IllegalStateException("nothing found");
                if (turn == 0)
                    System.out.println("ready");
            }
        }
    }
}

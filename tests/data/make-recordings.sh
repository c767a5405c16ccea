#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes async-profiler.jfr.gz, kinds.jfr.gz, sync.jfr.gz, ways.jfr.gz, datadog.jfr.gz and events.json again: recordings by profilers
# that are no Debian packages. kinds has what async-profiler can measure beside, sync its chunk beside one of the JDK. ways is three
# recordings one behind the other: by async-profiler 3.0, which wrote samples of the wall clock as if they were the CPU's; by 4.3, which
# knows locks of native code; and of page faults.
# Needs a JDK 17 and Maven, which gets them from Maven Central:
#
#     make-recordings.sh ASYNC-PROFILER-VERSION DDPROF-VERSION [LIBRARY]        (4.1 and 1.22.0 made those that are here)
#
# remote.jfr.gz, with frames that were left for a symbol service (remotesym), is by Datadog's profiler too, but no release on
# Maven Central has that option: LIBRARY is a libjavaProfiler.so built from its sources (d034fcaf4 made the one that is here).
#
# events.json says how many events of each type are in each, by the JDK's own `jfr summary`. Of sync and ways it would say nonsense: it takes
# the types of the first chunk for those of all.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
work=/tmp/recordings
rm -rf $work && mkdir $work && cd $work
get() {
        mvn -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy "-Dartifact=$1" -DoutputDirectory=$work
}
get "tools.profiler:async-profiler:$1"
get "com.datadoghq:ddprof:$2"
unzip -oqj async-profiler-"$1".jar linux-x64/libasyncProfiler.so
javac -d . -cp "$(echo ddprof-*.jar)" "$here/Work.java" "$here/Spans.java"
clean=(env -i PATH=/usr/bin HOME=/)
"${clean[@]}" java -agentpath:$work/libasyncProfiler.so=start,event=cpu,interval=5ms,wall=50ms,alloc=10m,lock=1ms,jfr,file=async-profiler.jfr \
        -cp . Work 2
"${clean[@]}" java -agentpath:$work/libasyncProfiler.so=start,event=cpu,interval=20ms,wall=100ms,alloc=4m,live,lock=10ms,nativemem=64k,jstackdepth=64,jfr,file=kinds.jfr \
        -cp . Work 1
"${clean[@]}" java -agentpath:$work/libasyncProfiler.so=start,event=cpu,interval=10ms,alloc=8m,lock=10ms,jfrsync=+jdk.JavaMonitorWait#threshold=1ms,file=sync.jfr \
        -cp . Work 1
for version in 3.0 4.3; do
        get "tools.profiler:async-profiler:$version"
        mkdir $version && unzip -oqj async-profiler-$version.jar linux-x64/libasyncProfiler.so -d $version
done
"${clean[@]}" java -agentpath:$work/3.0/libasyncProfiler.so=start,event=cpu,wall=100ms,jstackdepth=64,jfr,file=wall.jfr -cp . Work 1
"${clean[@]}" java -agentpath:$work/4.3/libasyncProfiler.so=start,event=cpu,interval=40ms,nativelock=0,jstackdepth=64,jfr,file=lock.jfr -cp . Work 1
"${clean[@]}" java -agentpath:$work/4.3/libasyncProfiler.so=start,event=page-faults,interval=100,jstackdepth=64,jfr,file=faults.jfr -cp . Work 1
cat wall.jfr lock.jfr faults.jfr >ways.jfr
"${clean[@]}" java -cp "$(echo ddprof-*.jar):." Spans datadog.jfr
names=(async-profiler kinds datadog)
if [ $# -gt 2 ]; then
        "${clean[@]}" java -XX:TieredStopAtLevel=1 "-agentpath:$3=start,cpu=2ms,remotesym=true,jfr,file=remote.jfr" -cp . Work 1
        names+=(remote)
fi
for name in "${names[@]}"; do
        jfr summary $name.jfr | awk -v name=$name '$2 ~ /^[1-9]/ && $1 ~ /^(jdk|datadog|profiler)\./ { print name, $1, $2 }'
        gzip -9n <$name.jfr >"$here/$name.jfr.gz"
done | python3 -c 'import json, sys
counts = {}
for line in sys.stdin:
    name, event, n = line.split()
    counts.setdefault(name, {})[event] = int(n)
print(json.dumps(counts, indent=1, sort_keys=True))' >"$here/events.json"
for name in sync ways; do
        gzip -9n <$name.jfr >"$here/$name.jfr.gz"
done

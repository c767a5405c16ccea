<?php
// SPDX-License-Identifier: Apache-2.0
// Composer's map of all classes in a folder, made again and again, beside Excimer, the profiler of PHP.
// Arguments: the folder, rounds, a file for what Excimer says: a stack a line, the outermost function first, and how often.
require 'Composer/ClassMapGenerator/autoload.php';
[, $folder, $rounds, $out] = $argv;

function work($folder, $rounds) {
    for ($i = 0; $i < $rounds; $i++)
        $map = Composer\ClassMapGenerator\ClassMapGenerator::createMap($folder);
    return count($map);
}

$profiler = new ExcimerProfiler;
$profiler->setEventType(EXCIMER_CPU);
$profiler->setPeriod(0.002);
$profiler->setMaxDepth(200);
$profiler->start();
$n = work($folder, (int)$rounds);
$profiler->stop();
file_put_contents($out, $profiler->getLog()->formatCollapsed());
echo "$n\n";

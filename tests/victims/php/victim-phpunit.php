<?php
// SPDX-License-Identifier: Apache-2.0
// PHPUnit's own tests of its units, again and again, beside Excimer, the profiler of PHP.
// Arguments: the folder of its tests, rounds, a file for what Excimer says: a stack a line, the outermost function
// first, and how often.
require 'Composer/ClassMapGenerator/autoload.php';
require 'PHPUnit/Autoload.php';
[, $tests, $rounds, $out] = $argv;
define('TEST_FILES_PATH', "$tests/_files/");
define('PHPUNIT_TESTSUITE', true);
// not those that start other programs, or can be run but once
const AGAIN = '/^(?!.*(Mock|Trait|TestCaseTest|ExceptionWrapper|Phpt|TestResult)).*$/';
$classes = Composer\ClassMapGenerator\ClassMapGenerator::createMap($tests);
spl_autoload_register(function ($class) use ($classes) {
    if (isset($classes[$class]))
        require_once $classes[$class];
});
foreach (['CoverageNamespacedFunctionTest', 'CoveredFunction', 'NamespaceCoveredFunction'] as $file)
    require_once "$tests/_files/$file.php";

function work($tests, $rounds) {
    $options = ['phpunit', '--no-configuration', '--do-not-cache-result', '--colors=never', '--columns=80'];
    (new PHPUnit\TextUI\Command)->run([...$options, '--repeat', $rounds, '--filter', AGAIN, "$tests/unit"], false);
}

// PHPUnit puts global variables back as they were
function sampled($tests, $rounds, $out) {
    $profiler = new ExcimerProfiler;
    $profiler->setEventType(EXCIMER_CPU);
    $profiler->setPeriod(0.002);
    $profiler->setMaxDepth(200);
    $profiler->start();
    work($tests, $rounds);
    $profiler->stop();
    file_put_contents($out, $profiler->getLog()->formatCollapsed());
}

sampled($tests, $rounds, $out);

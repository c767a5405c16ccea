<?php
// PHP that computes in known chains of calls, one after the other, for test-run-php.py. Each chain begins in its
// own function and ends in `burn`. Runs on PHP 7.4 and newer; chains of fibers on 8.1 and newer.
//
// usage: php victim-php.php [CHAIN…]   prints `ready`, runs until it is killed; without a name, all chains
//        php victim-php.php --print    PHP's own word on each chain, by debug_backtrace(), as JSON:
//                                      {chain: [[function, line or null], …]}, the outermost first
$print = in_array('--print', $argv);
$seen = null;
const ROUNDS = 6000;

function burn($seed) {
    if ($GLOBALS['print'])
        look();
    for ($i = 0, $total = $seed; $i < ROUNDS; $i++) {
        $total = $total * 31;
        $total = ($total + $i) & 0xffff;
    }
    return $total;
}

// The line of a frame is that at which it has called the one before.
function look() {
    $chain = [];
    $line = null;
    foreach (debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS) as $frame) {
        $name = in_array($frame['function'], ['include', 'eval']) ? $frame['function'] : (isset($frame['class'])
            ? $frame['class'] . '::' . $frame['function'] : $frame['function']);
        array_unshift($chain, [$name, $line]);
        $line = $frame['line'] ?? null;
    }
    array_pop($chain);
    $GLOBALS['seen'] = $chain;
}

class Shape {
    public $side = 2;
    function area() {
        return $this->side * $this->total();
    }
    private function total() {
        return burn(1);
    }
    static function made() {
        return (new static)->area();
    }
    function __get($name) {
        return burn(2);
    }
    function __call($name, $arguments) {
        return burn(3);
    }
    function __toString() {
        return (string)burn(4);
    }
    function bound() {
        return function () {
            return burn(5);
        };
    }
}

class Square extends Shape {
    function area() {
        return parent::area() + 1;
    }
}

class Ends {
    function __destruct() {
        burn(6);
    }
}

class Rows implements IteratorAggregate {
    #[ReturnTypeWillChange]
    function getIterator() {
        burn(7);
        return new ArrayIterator([1]);
    }
}

function hot($n) {
    return burn($n);
}

function mid($n) {
    return hot($n) + 1;
}

function top($n) {
    return mid($n) + 1;
}

function deep($depth) {
    return $depth ? deep($depth - 1) + 1 : burn(8);
}

function yielding($n) {
    yield burn($n);
    yield 1;
}

function thrower() {
    throw new Exception('as expected');
}

function replaced($matches) {
    return (string)burn(9);
}

$chains = [
    'plain' => function () { return top(1); },
    'recursion' => function () { return deep(60); },
    'methods' => function () { return Square::made(); },
    'mapped' => function () { return array_map(function ($x) { return burn($x); }, [1, 2]); },
    'filtered' => function () { return array_filter([1, 2], fn($x) => burn($x)); },
    'sorted' => function () {
        $a = [3, 1, 2];
        usort($a, function ($x, $y) { return burn(1) * 0 + $x - $y; });
    },
    'expression' => function () { return preg_replace_callback('/b/', 'replaced', 'abc'); },
    'called' => function () { return call_user_func('top', 2); },
    'magic' => function () { return (new Shape)->unknown(1); },
    'got' => function () { return (new Shape)->nothing; },
    'text' => function () { return strlen(new Shape); },
    'joined' => function () { return implode(',', [new Shape]); },
    'bound' => function () { return (new Shape)->bound()(); },
    'ends' => function () { $ends = new Ends; },
    'iterated' => function () { foreach (new Rows as $row); },
    'caught' => function () {
        try {
            thrower();
        } catch (Exception $e) {
            return hot(3);
        }
    },
    'warned' => function () {
        set_error_handler(function () { burn(1); return true; });
        $x = $undefined;
        restore_error_handler();
    },
    'included' => function () { return include __DIR__ . '/victim-included.php'; },
    'evaluated' => function () { return eval('return burn(2);'); },
    'generated' => function () { foreach (yielding(3) as $x); },
    'advanced' => function () { return yielding(4)->current(); },
];
if (PHP_VERSION_ID >= 80100) {
    $chains['fiber'] = function () { (new Fiber(function () { hot(5); }))->start(); };
    $chains['fibers'] = function () {
        $inner = new Fiber(function () { Fiber::suspend(); burn(6); });
        (new Fiber(function () use ($inner) { $inner->start(); $inner->resume(); }))->start();
    };
}
$wanted = array_filter(array_slice($argv, 1), fn($word) => isset($chains[$word]));
$chains = $wanted ? array_intersect_key($chains, array_flip($wanted)) : $chains;
if ($print) {
    $said = [];
    foreach ($chains as $name => $chain) {
        $chain();
        $said[$name] = $seen;
    }
    echo json_encode($said), "\n";
    exit;
}
echo "ready\n";
while (true)
    foreach ($chains as $name => $chain)
        $chain();

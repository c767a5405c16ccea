<?php
// SPDX-License-Identifier: Apache-2.0
// A page of a server that computes in a known chain of calls: main, Cart::total, array_map, Cart::{closure}, burn.
function burn($seed) {
    for ($i = 0, $total = $seed; $i < 6000; $i++)
        $total = ($total * 31 + $i) & 0xffff;
    return $total;
}

class Cart {
    static function total($n) {
        return array_sum(array_map(fn ($seed) => burn($seed), range(1, $n)));
    }
}

echo Cart::total(60);

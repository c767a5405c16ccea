// SPDX-License-Identifier: Apache-2.0
// Much inlined code of the standard library, for tests/bench/symbols.py.
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <vector>

int main(int argc, char **argv) {
        std::map<std::string, int> counts;
        std::regex word("[a-z]+(-[a-z]+)?");
        for (int i = 0; i < argc; i++) {
                std::string text(argv[i]);
                for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it)
                        counts[it->str()]++;
        }
        std::vector<std::pair<int, std::string>> sorted;
        for (const auto &count : counts)
                sorted.emplace_back(count.second, count.first);
        std::sort(sorted.begin(), sorted.end());
        for (const auto &pair : sorted)
                std::printf("%d %s\n", pair.first, pair.second.c_str());
        return 0;
}

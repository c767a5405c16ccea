/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program with an interpreter of Python in it, as an editor or a database has one. The test links it with
 * libpython, or with libpython.a and no exports.
 *
 * usage: victim-embed FILE.py [ARGUMENT…]      PYTHONHOME says where the library of Python is
 */
int Py_BytesMain(int n, char **arguments);

int main(int n, char **arguments) {
        return Py_BytesMain(n, arguments);
}

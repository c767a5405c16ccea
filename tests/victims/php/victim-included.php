<?php
// Included by victim-php.php: the code of a file.
return burn(1);

// Tests read what commands print, so these must not colour it: not even where whoever runs the tests asks
// for colours by a variable that every child inherits (FORCE_COLOR=1 is common in CI).

delete process.env["FORCE_COLOR"];
delete process.env["CLICOLOR_FORCE"];
process.env["NO_COLOR"] = "1";

package serverlog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const csvLine = `2026-11-22 02:10:05.123 UTC,"app","shop",41,"[local]",6741a,3,"SELECT waiting",2026-11-22 02:00:00 UTC,4/7,0,LOG,00000,"process 41 acquired ExclusiveLock on advisory lock [16384,0,42,1] after 5000.250 ms",,,,,,"SELECT pg_advisory_lock(42)",,,"psql","client backend",,0` + "\n"

func TestReadFindsWaitsInEveryFormat(t *testing.T) {
	t.Parallel()
	message := "process 41 acquired ExclusiveLock on advisory lock [16384,0,42,1] after 5000.250 ms"
	tests := []struct {
		name   string
		format Format
		prefix string
		log    string

		application string
	}{
		{"csv", CSV, "", csvLine, "psql"},
		{"json", JSON, "", `{"timestamp":"2026-11-22 02:10:05.123 UTC","pid":41,"session_start":"2026-11-22 02:00:00 UTC","error_severity":"LOG","message":"` + message + `","application_name":"psql"}` + "\n", "psql"},
		{"default prefix", Stderr, "%m [%p] ", "2026-11-22 02:00:05.123 UTC [7] LOG:  x\n2026-11-22 02:10:05.123 UTC [41] LOG:  " + message + "\n\tcontinued\n", ""},
		{"session ID", Stderr, "%m %c ", fmt.Sprintf("2026-11-22 02:10:05.123 UTC %x.%x LOG:  %s\n", 1795312800, 41, message), ""},
		{"start", Stderr, "%m [%p] %s ", "2026-11-22 02:10:05.123 UTC [41] 2026-11-22 02:10:00 UTC LOG:  " + message + "\n", ""},
		{"seconds", Stderr, "%t:%r:%u@%d:[%p]: ", "2026-11-22 02:09:59 UTC:[local]:app@shop:[41]: LOG:  x\n2026-11-22 02:10:05 UTC:[local]:app@shop:[41]: LOG:  " + message + "\n", ""},
		{"epoch", Stderr, "%n %-8p %q%a %% ", "1795313400.000 7        LOG:  x\n1795313405.123 41       my app % LOG:  " + message + "\n", "my app"},
		{"offset", Stderr, "%m ", "2026-11-22 03:10:00.000 +01 LOG:  x\n2026-11-22 03:10:05.123 +01 LOG:  " + message + "\n", ""},
	}
	for _, test := range tests {
		log, err := Read(strings.NewReader(test.log), test.format, test.prefix, nil)
		waits := log.Waits
		if err != nil || len(waits) != 1 {
			t.Errorf("%s: %v, %v", test.name, log, err)
			continue
		}
		want := Wait{At: time.Date(2026, 11, 22, 2, 10, 5, 0, time.UTC), Waited: 5000250 * time.Microsecond, PID: 41,
			Acquired: true, Mode: "ExclusiveLock", DatabaseOID: 16384, ObjID: 42, Objsubid: 1}
		want.Application = test.application
		waits[0].At = waits[0].At.UTC().Truncate(time.Second)
		if !reflect.DeepEqual(waits[0], want) {
			t.Errorf("%s: %+v", test.name, waits[0])
		}
	}
}

func TestReadFindsTheHoldersOfEveryFormat(t *testing.T) {
	t.Parallel()
	const (
		still  = "process 41 still waiting for ExclusiveLock on advisory lock [16384,0,42,1] after 1000.250 ms"
		detail = "Processes holding the lock: 7, 0. Wait queue: 40, 41."
		other  = "Process holding the lock: 9. Wait queue: 42."
		at     = "2026-11-22 02:10:05.123 UTC"
	)
	line := func(pid, severity, text string) string {
		return at + " [" + pid + "] " + severity + ":  " + text + "\n"
	}
	both := []int32{7, 0}
	tests := []struct {
		name   string
		format Format
		log    string
		want   []int32
	}{
		{"csv", CSV, strings.Replace(strings.Replace(csvLine, "acquired ExclusiveLock", "still waiting for ExclusiveLock", 1),
			`ms",`, `ms","`+detail+`"`, 1), both},
		{"json", JSON, `{"timestamp":"` + at + `","error_severity":"LOG","message":"` + still + `","detail":"` + detail + `"}`, both},
		{"lines", Stderr, line("41", "LOG", still) + line("41", "DETAIL", detail) + line("41", "STATEMENT", "SELECT 1"), both},
		{"verbose lines", Stderr, line("41", "LOG", "00000: "+still) + line("41", "DETAIL", detail), both},
		{"of another message", Stderr, line("41", "LOG", still) + line("42", "DETAIL", other), nil},
		{"later", Stderr, line("41", "LOG", still) + line("41", "STATEMENT", "SELECT 1") + line("41", "DETAIL", detail), nil},
		{"in a statement", Stderr, line("41", "LOG", still) + line("41", "STATEMENT", detail), nil},
		{"too large", Stderr, line("41", "LOG", still) + line("41", "DETAIL", "Process holding the lock: 99999999999. Wait queue: 41."), nil},
	}
	for _, test := range tests {
		log, err := Read(strings.NewReader(test.log), test.format, "%m [%p] ", nil)
		waits := log.Waits
		if err != nil || len(waits) != 1 || waits[0].Acquired || !slices.Equal(waits[0].Holders, test.want) {
			t.Errorf("%s: %+v, %v; want the holders %v", test.name, waits, err, test.want)
		}
	}
}

func TestReadRefusesALogWithoutEnglishSeverities(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		format Format
		log    string
	}{
		"french": {Stderr, "2026-11-22 02:10:05.123 UTC [41] ERREUR:  erreur de syntaxe\n"},
		"csv":    {CSV, strings.Replace(csvLine, "LOG", "СООБЩЕНИЕ", 1)},
		"json":   {JSON, `{"timestamp":"2026-11-22 02:10:05.123 UTC","error_severity":"СООБЩЕНИЕ","message":"x"}`},
	} {
		if log, err := Read(strings.NewReader(test.log), test.format, "%m [%p] ", nil); !errors.Is(err, ErrLanguage) {
			t.Errorf("%s: %v, %v", name, log, err)
		}
	}
}

// translated has the message in all languages into which PostgreSQL 15 translates it.
var translated = []string{
	`Prozess 27702 wartet immer noch auf ExclusiveLock-Sperre auf Benutzersperre [5,0,42,1] nach 20,193 ms`,
	`Prozess 27702 erlangte ExclusiveLock-Sperre auf Benutzersperre [5,0,42,1] nach 159,174 ms`,
	`le processus 27740 est toujours en attente de ExclusiveLock sur verrou informatif [5,0,42,1] après 43.300 ms`,
	`le processus 27740 a acquis ExclusiveLock sur verrou informatif [5,0,42,1] après 91.133 ms`,
	`el proceso 27778 aún espera ExclusiveLock en candado consultivo [5,0,42,1] después de 21.073 ms`,
	`el proceso 27778 adquirió ExclusiveLock en candado consultivo [5,0,42,1] después de 160.481 ms`,
	`プロセス27829はExclusiveLockをアドバイザリ・ロック[5,0,42,1]で待機しています。20.264ミリ秒後`,
	`プロセス27829は194.134 ms後にアドバイザリ・ロック[5,0,42,1]上のExclusiveLockを獲得しました`,
	`процесс 27880 продолжает ожидать в режиме ExclusiveLock блокировку "рекомендательная блокировка [5,0,42,1]" в течение 20.206 мс`,
	`процесс 27880 получил в режиме ExclusiveLock блокировку "рекомендательная блокировка [5,0,42,1]" через 169.330 мс`,
	`il processo 27937 è ancora un attesa di ExclusiveLock su l'advisory lock [5,0,42,1] dopo 21.072 ms`,
	`il processo 27937 ha acquisito ExclusiveLock su l'advisory lock [5,0,42,1] dopo 95.784 ms`,
	`28040 PID 프로세스에서 여전히 ExclusiveLock(advisory lock [5,0,42,1]) 작업을 기다리고 있음(20.829ms 후)`,
	`28040 PID 프로세스가 ExclusiveLock(advisory lock [5,0,42,1]) 작업을 위해 잠금 취득함(217.780ms 후)`,
	`process 28092 väntar fortfarande på ExclusiveLock för rådgivande lås [5,0,42,1] efter 23.644 ms`,
	`process 28092 fick ExclusiveLock på rådgivande lås [5,0,42,1] efter 183.872 ms`,
	`процес 28240 все ще чекає в режимі ExclusiveLock блокування рекомендаційне блокування [5,0,42,1] після 20.201 мс`,
	`процес 28240 отримав в режимі ExclusiveLock блокування рекомендаційне блокування [5,0,42,1] після 174.175 мс`,
	`process 28309 still waiting for ExclusiveLock on რეკომენდებული ბლოკი [5,0,42,1] after 21.838 ms`,
	`process 28309 acquired ExclusiveLock on რეკომენდებული ბლოკი [5,0,42,1] after 171.031 ms`,
	`进程28383在21.367 ms仍然等待在建议锁 [5,0,42,1]上的ExclusiveLock`,
	`进程28383在31.929 ms后获取在建议锁 [5,0,42,1]上的ExclusiveLock`,
}

// In jsonlog the severities are English in every language.
func TestReadKnowsTheMessageInEveryLanguage(t *testing.T) {
	t.Parallel()
	for _, text := range translated {
		line, err := json.Marshal(map[string]string{"timestamp": "2026-11-22 02:10:05.123 UTC", "error_severity": "LOG", "message": text})
		if err != nil {
			t.Fatal(err)
		}
		log, err := Read(bytes.NewReader(line), JSON, "", nil)
		if err != nil || log.Skipped != (Skipped{Translated: 1}) || !strings.Contains(log.Skipped.String(), "1 that may be about waits") {
			t.Errorf("%s: %v, %v", text, log, err)
		}
	}
}

func TestReadTakesNoOtherMessageForAnotherLanguage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"process 41 failed to acquire ExclusiveLock on advisory lock [5,0,42,1] after 5000.250 ms",
		"process 41 detected deadlock while waiting for ShareLock on transaction 743 after 1000.350 ms",
		"process 41 still waiting for ExclusiveLock on tuple (0,1) of relation 16384 of database 5 after 1000.250 ms",
		"statement: SELECT 'ExclusiveLock', ARRAY[1,2,3,4], 1.250",
		"duration: 1.250 ms  statement: SELECT 'ExclusiveLock', ARRAY[1,2,3,4]",
	} {
		log := "2026-11-22 02:10:05.123 UTC [41] LOG:  " + text + "\n"
		if found, err := Read(strings.NewReader(log), Stderr, "%m [%p] ", nil); err != nil || !reflect.DeepEqual(found, Log{}) {
			t.Errorf("%s: %v, %v", text, found, err)
		}
	}
}

func TestReadRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	line := "2026-11-22 02:10:05.123 CET [41] LOG:  process 41 acquired ShareLock on advisory lock [1,0,42,1] after 5000.250 ms\n"
	for name, test := range map[string]struct {
		format      Format
		prefix, log string
		want        string
	}{
		"another prefix": {Stderr, "<%m> ", line, "no line begins"},
		"another rest":   {Stderr, "%m [%p] %q<%u> ", "2026-11-22 02:10:05.000 UTC [7] LOG:  x\n" + line, "no line begins"},
		"no time":        {Stderr, "[%p] ", line, "has no time"},
		"unknown escape": {Stderr, "%m %z ", line, "unknown escape"},
		"cut prefix":     {Stderr, "%m %", line, "ends with %"},
		"ambiguous zone": {Stderr, "%m [%p] ", line, "--log-timezone"},
		"no csv":         {CSV, "", "a,b\n", "not a csvlog"},
		"no json":        {JSON, "", "a,b\n", "not a jsonlog"},
		"broken csv":     {CSV, "", "\"a\nb", "not a csvlog"},
	} {
		zone := time.UTC
		if name == "ambiguous zone" {
			zone = nil
		}
		if _, err := Read(strings.NewReader(test.log), test.format, test.prefix, zone); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Skip("no time zones here")
	}
	log, err := Read(strings.NewReader(line), Stderr, "%m [%p] ", paris)
	if err != nil || log.Waits[0].At.UTC().Hour() != 1 {
		t.Errorf("in Paris: %v, %v", log, err)
	}
}

// Lines of a role's own making are skipped and counted, and the message of the server beside them is read.
func TestReadBelievesTheServerOnly(t *testing.T) {
	t.Parallel()
	const (
		good  = "process 41 acquired ExclusiveLock on advisory lock [16384,0,42,1] after 5000.250 ms"
		other = "process 4242 acquired ExclusiveLock on advisory lock [16384,0,42,1] after 5000.250 ms"
		long  = "process 41 acquired ExclusiveLock on advisory lock [16384,0,42,1] after 999999999.000 ms"
		wild  = "process 41 acquired ExclusiveLock on advisory lock [16384,0,42,7] after 5000.250 ms"
		huge  = "process 41 acquired ExclusiveLock on advisory lock [16384,0,99999999999,1] after 5000.250 ms"
		raise = `PL/pgSQL function inline_code_block line 1 at RAISE`
		tail  = good + " "
	)
	assigned := "PL/pgSQL function f() line 3 at assignment"
	for _, test := range []struct {
		name, severity, text, context string
		want                          Log // how many waits, and what is skipped
	}{
		{"the server's", "LOG", good, "", Log{}},
		{"in a function", "LOG", good, assigned, Log{Waits: make([]Wait, 1)}},
		{"another process", "LOG", other, "", Log{Skipped: Skipped{Doubtful: 1}}},
		{"older than its session", "LOG", long, "", Log{Skipped: Skipped{Doubtful: 1}}},
		{"a warning", "WARNING", good, "", Log{}},
		{"no such lock", "LOG", wild, "", Log{Skipped: Skipped{Doubtful: 1}}},
		{"no such number", "LOG", huge, "", Log{Skipped: Skipped{Doubtful: 1}}},
		{"RAISE", "LOG", good, raise, Log{Skipped: Skipped{Doubtful: 1}}},
		{"RAISE in a function with a name of two lines", "LOG", good, "PL/pgSQL function \"x line 1 at assignment\n\"() line 1 at RAISE",
			Log{Skipped: Skipped{Doubtful: 1}}},
		{"PL/Perl", "LOG", good, `PL/Perl function "f"`, Log{Skipped: Skipped{Doubtful: 1}}},
		{"more text", "LOG", tail, "", Log{Skipped: Skipped{Translated: 1}}},
		{"an error that looks translated", "ERROR", "ExclusiveLock [1,2,3,4] 1.234", "", Log{}},
		{"a message that looks translated", "LOG", "ExclusiveLock [1,2,3,4] 1.234", "", Log{Skipped: Skipped{Translated: 1}}},
	} {
		if test.name == "the server's" {
			test.want.Waits = make([]Wait, 1)
		}
		for format, log := range map[Format]string{CSV: inCSV(test.severity, test.text, test.context),
			JSON: inJSON(t, test.severity, test.text, test.context), Stderr: inStderr(test.severity, test.text, test.context)} {
			want := test.want.Skipped
			if test.context == assigned { // once, since it takes long
				log = odd(format) + log
				if format != Stderr {
					want.Unreadable = 2
				}
			}
			got, err := Read(strings.NewReader(log), format, "%m [%p] %s ", nil)
			if err != nil || len(got.Waits) != len(test.want.Waits) || got.Skipped != want {
				t.Errorf("%s, %s: %+v, %v", test.name, format, got, err)
			}
		}
	}
}

func TestFieldsAreThoseOfCSV(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`a,b`, `,`, `"",""`, `"a""b","""",c,"x\ny"`, `"a,b",,`, `""""""`, csvLine} {
		text = strings.TrimSuffix(text, "\n")
		want, err := csv.NewReader(strings.NewReader(text)).Read()
		got, ok := fields([]byte(text), 100)
		if err != nil || !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %t; want %q, %v", text, got, ok, want, err)
		}
	}
	for _, text := range []string{`"a`, `"a"b`, `"a""`} {
		if got, ok := fields([]byte(text), 100); ok {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got, _ := fields([]byte("a,b,c"), 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("two fields: %q", got)
	}
}

// odd are lines that are not in the format, and one that is too long.
func odd(format Format) string {
	switch format {
	case CSV:
		return "a,b\n\"" + strings.Repeat("x\n", maxLine/2) + csvLine[:40] + "\"\"\"\n"
	case JSON:
		return "a,b\n{\"message\":\"" + strings.Repeat("x", maxLine) + "\"}\n"
	}
	return "a,b\n" + strings.Repeat("x", 2*maxStderrLine) + "\n"
}

func inCSV(severity, text, context string) string {
	row, _ := csv.NewReader(strings.NewReader(csvLine)).Read()
	row[11], row[13], row[18] = severity, text, context
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(row) // to memory
	w.Flush()
	return b.String()
}

func inJSON(t *testing.T, severity, text, context string) string {
	t.Helper()
	line, err := json.Marshal(map[string]any{"timestamp": "2026-11-22 02:10:05.123 UTC", "pid": 41, "error_severity": severity,
		"session_start": "2026-11-22 02:00:00 UTC", "message": text, "context": context})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

func inStderr(severity, text, context string) string {
	const head = "2026-11-22 02:10:05.123 UTC [41] 2026-11-22 02:00:00 UTC "
	log := head + severity + ":  " + text + "\n"
	if context != "" {
		log += head + "CONTEXT:  " + strings.ReplaceAll(context, "\n", "\n\t") + "\n"
	}
	return log + head + "STATEMENT:  SELECT 1\n"
}

// A stranger's log is of any size. What is kept of it is not. The test is not parallel, so that the memory is Read's.
func TestReadKeepsABoundedPart(t *testing.T) {
	holders := "Processes holding the lock: 1" + strings.Repeat(", 1", 20) + ". Wait queue: 41."
	row := strings.Replace(strings.Replace(csvLine, `ms",`, `ms","`+holders+`"`, 1), `"psql"`, `"`+strings.Repeat("x", 200)+`"`, 1)
	rows := &repeated{text: row, times: maxWaits + 5}
	log, err := Read(rows, CSV, "", nil)
	if err != nil || len(log.Waits) != maxWaits || log.Skipped != (Skipped{Beyond: 5}) ||
		len(log.Waits[0].Holders) != maxHolders || len(log.Waits[0].Application) != maxApplication {
		t.Errorf("%d waits, %+v, %v", len(log.Waits), log.Skipped, err)
	}
	rows.wantBounded(t, "waits")
	for format, begin := range map[Format]string{CSV: csvLine + `"`, JSON: inJSON(t, "LOG", "x", "") + `{"a":"`,
		Stderr: inStderr("LOG", "x", "") + "2026-11-22 02:10:05.123 UTC [41] 2026-11-22 02:00:00 UTC LOG:  "} {
		line := &repeated{text: strings.Repeat("x", 1<<20), times: 66}
		if _, err := Read(io.MultiReader(strings.NewReader(begin), line), format, "%m [%p] %s ", nil); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		line.wantBounded(t, "one line of "+string(format))
	}
	commas := &repeated{text: strings.Repeat(",", maxLine-1) + "\n", times: 4}
	if log, err := Read(io.MultiReader(strings.NewReader(csvLine), commas), CSV, "", nil); err != nil || len(log.Waits) != 1 {
		t.Errorf("commas: %+v, %v", log, err)
	}
	commas.wantBounded(t, "commas")
}

// repeated reads a text several times, and notes how much memory is in use.
type repeated struct {
	text        string
	times, read int
	rest        string
	most        uint64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.read == r.times {
			return 0, io.EOF
		}
		r.read++
		r.rest = r.text
		if r.read%(1+r.times/20) == 0 {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			r.most = max(r.most, now.HeapAlloc)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *repeated) wantBounded(t *testing.T, what string) {
	t.Helper()
	const bound = 64 << 20
	if r.read != r.times || r.most > bound {
		t.Errorf("%s: after %d of %d parts, %d bytes were in use", what, r.read, r.times, r.most)
	}
	t.Logf("%s: %d MiB", what, r.most>>20)
}

// FuzzRead adds a server's line to whatever a log says, in any format. Neither may stop the other from being read.
func FuzzRead(f *testing.F) {
	f.Add(csvLine)
	f.Add("2026-11-22 02:10:05.123 UTC [41] 2026-11-22 02:00:00 UTC LOG:  x\n")
	f.Add("\"\"\"\n,,,,\n{\"a\":[[[\n")
	f.Fuzz(func(t *testing.T, odd string) {
		const good = "process 41 acquired ExclusiveLock on advisory lock [16384,0,42,1] after 5000.250 ms"
		for format, line := range map[Format]string{CSV: csvLine, JSON: inJSON(t, "LOG", good, ""), Stderr: inStderr("LOG", good, "")} {
			log, err := Read(strings.NewReader(line+odd), format, "%m [%p] %s ", nil)
			if err != nil || len(log.Waits) == 0 {
				t.Errorf("%s: %+v, %v", format, log, err)
			}
			if len(log.Waits) > 0 && log.Waits[0].PID != 41 {
				t.Errorf("%s: %+v", format, log)
			}
		}
	})
}

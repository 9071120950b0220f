package serverlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
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
		{"json", JSON, "", `{"timestamp":"2026-11-22 02:10:05.123 UTC","pid":41,"error_severity":"LOG","message":"` + message + `","application_name":"psql"}` + "\n", "psql"},
		{"default prefix", Stderr, "%m [%p] ", "2026-11-22 02:10:05.123 UTC [41] LOG:  " + message + "\n\tcontinued\n", ""},
		{"seconds", Stderr, "%t:%r:%u@%d:[%p]: ", "2026-11-22 02:10:05 UTC:[local]:app@shop:[41]: LOG:  " + message + "\n", ""},
		{"epoch", Stderr, "%n %-8p %q%a %% ", "1795313405.123 41       my app % LOG:  " + message + "\n", "my app"},
		{"offset", Stderr, "%m ", "2026-11-22 03:10:05.123 +01 LOG:  " + message + "\n", ""},
	}
	for _, test := range tests {
		waits, err := Read(strings.NewReader(test.log), test.format, test.prefix, nil)
		if err != nil || len(waits) != 1 {
			t.Errorf("%s: %v, %v", test.name, waits, err)
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
		waits, err := Read(strings.NewReader(test.log), test.format, "%m [%p] ", nil)
		if err != nil || len(waits) != 1 || waits[0].Acquired || !slices.Equal(waits[0].Holders, test.want) {
			t.Errorf("%s: %+v, %v; want the holders %v", test.name, waits, err, test.want)
		}
	}
}

func TestReadRefusesOtherLanguages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		format Format
		log    string
	}{
		"german": {Stderr, "2026-11-22 02:10:05.123 UTC [41] LOG:  Prozess 41 erlangte ExclusiveLock-Sperre auf Advisory-Sperre " +
			"[16384,0,42,1] nach 5000.250 ms\n"},
		"french severities": {Stderr, "2026-11-22 02:10:05.123 UTC [41] ERREUR:  erreur de syntaxe\n"},
		"csv": {CSV, strings.Replace(strings.Replace(csvLine, "acquired ExclusiveLock on", "a acquis ExclusiveLock sur", 1),
			"after", "après", 1)},
		"json": {JSON, `{"timestamp":"2026-11-22 02:10:05.123 UTC","error_severity":"СООБЩЕНИЕ","message":"x"}`},
	} {
		if waits, err := Read(strings.NewReader(test.log), test.format, "%m [%p] ", nil); !errors.Is(err, ErrLanguage) {
			t.Errorf("%s: %v, %v", name, waits, err)
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
		if waits, err := Read(bytes.NewReader(line), JSON, "", nil); !errors.Is(err, ErrLanguage) {
			t.Errorf("%s: %v, %v", text, waits, err)
		}
	}
}

func TestReadTakesNoOtherMessageForAnotherLanguage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"process 41 failed to acquire ExclusiveLock on advisory lock [5,0,42,1] after 5000.250 ms",
		"process 41 detected deadlock while waiting for ExclusiveLock on advisory lock [5,0,42,1] after 1000.250 ms",
		"process 41 still waiting for ExclusiveLock on tuple (0,1) of relation 16384 of database 5 after 1000.250 ms",
		"statement: SELECT 'ExclusiveLock', ARRAY[1,2,3,4], 1.250",
		"duration: 1.250 ms  statement: SELECT 'ExclusiveLock', ARRAY[1,2,3,4]",
	} {
		log := "2026-11-22 02:10:05.123 UTC [41] LOG:  " + text + "\n"
		if waits, err := Read(strings.NewReader(log), Stderr, "%m [%p] ", nil); err != nil || len(waits) != 0 {
			t.Errorf("%s: %v, %v", text, waits, err)
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
		"another prefix":  {Stderr, "<%m> ", line, "no line begins"},
		"no time":         {Stderr, "[%p] ", line, "has no time"},
		"unknown escape":  {Stderr, "%m %z ", line, "unknown escape"},
		"cut prefix":      {Stderr, "%m %", line, "ends with %"},
		"ambiguous zone":  {Stderr, "%m [%p] ", line, "--log-timezone"},
		"no csv":          {CSV, "", "a,b\n", "not a csvlog"},
		"no json":         {JSON, "", "a,b\n", "not a jsonlog"},
		"broken csv":      {CSV, "", "\"a\nb", "not a csvlog"},
		"huge process ID": {Stderr, "%m [%p] ", strings.Replace(line, "process 41", "process 99999999999999", 1), "range"},
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
	waits, err := Read(strings.NewReader(line), Stderr, "%m [%p] ", paris)
	if err != nil || waits[0].At.UTC().Hour() != 1 {
		t.Errorf("in Paris: %v, %v", waits, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("csv", "", csvLine)
	f.Add("stderr", "%m [%p] ", "2026-11-22 02:10:05.123 UTC [41] LOG:  x\n")
	f.Fuzz(func(_ *testing.T, format, prefix, log string) {
		_, _ = Read(strings.NewReader(log), Format(format), prefix, nil) // whatever it says
	})
}

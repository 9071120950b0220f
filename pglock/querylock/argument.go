package querylock

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

var errNull = errors.New("it is NULL, and a lock's name needs a value")

// encode returns the canonical text of a query's argument, whatever Go type sqlc or the caller has chosen for it. The texts
// never change.
func encode(t keytemplate.Type, argument any) (string, error) {
	switch t {
	case keytemplate.Text:
		return encodeText(argument)
	case keytemplate.UUID:
		return encodeUUID(argument)
	case keytemplate.Boolean:
		return encodeBool(argument)
	case keytemplate.TimestampTZ:
		return encodeTime(argument)
	}
	return encodeInt(argument)
}

func encodeInt(argument any) (string, error) {
	if n, ok := argument.(int64); ok {
		return strconv.FormatInt(n, 10), nil
	}
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	switch {
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return strconv.FormatUint(v.Uint(), 10), nil
	}
	return "", unusable(argument, "an integer")
}

func encodeText(argument any) (string, error) {
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	if v.Kind() != reflect.String {
		return "", unusable(argument, "a text")
	}
	if _, ok := v.Interface().(fmt.Stringer); ok { // pgx sends what String returns, which may be another text
		return "", unusable(argument, "a string without a String method")
	}
	text := v.String()
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "", errors.New("it has a NUL byte, which PostgreSQL's text cannot contain")
	case !utf8.ValidString(text):
		return "", errors.New("it is not UTF-8")
	}
	return escaper.Replace(text), nil
}

// escaper escapes [keytemplate.Specials].
var escaper = strings.NewReplacer("%", "%25", ":", "%3A", "@", "%40", "{", "%7B", "}", "%7D")

func encodeBool(argument any) (string, error) {
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	if v.Kind() != reflect.Bool {
		return "", unusable(argument, "a boolean")
	}
	return strconv.FormatBool(v.Bool()), nil
}

var bytesOfUUID = reflect.TypeFor[[16]byte]()

func encodeUUID(argument any) (string, error) {
	u := pgtype.UUID{Valid: true}
	v := deref(argument)
	if v.IsValid() && v.Type().ConvertibleTo(bytesOfUUID) && v.Kind() == reflect.Array {
		u.Bytes = v.Convert(bytesOfUUID).Interface().([16]byte)
		return u.String(), nil
	}
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	if v.Kind() != reflect.String {
		return "", unusable(argument, "a uuid")
	}
	if err := u.Scan(v.String()); err != nil {
		return "", err
	}
	return u.String(), nil
}

// The bounds of times: the first second of timestamptz, in 4714 BC, and the last one whose microseconds are an int64, in 294247.
const firstSecond, lastSecond = -210866803200, math.MaxInt64/1_000_000 - 1

// encodeTime returns the microseconds since 1970 in UTC, rounded down as PostgreSQL's drivers do.
func encodeTime(argument any) (string, error) {
	if v := deref(argument); v.IsValid() {
		if at, ok := v.Interface().(pgtype.Timestamptz); ok && at.Valid && at.InfinityModifier != pgtype.Finite {
			return "", fmt.Errorf("it is %v, which is not a point in time", at.InfinityModifier)
		}
	}
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	at, ok := v.Interface().(time.Time)
	if !ok {
		return "", unusable(argument, "a time (time.Time or pgtype.Timestamptz)")
	}
	if seconds := at.Unix(); seconds < firstSecond || seconds > lastSecond {
		return "", fmt.Errorf("the time %v is beyond the bounds of timestamptz", at)
	}
	return strconv.FormatInt(at.UnixMicro(), 10), nil
}

func unusable(argument any, want string) error {
	return fmt.Errorf("its Go type is %T, want %s", argument, want)
}

// deref follows pointers; the result is invalid for nil.
func deref(argument any) reflect.Value {
	v := reflect.ValueOf(argument)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// plain returns the argument without pointers, or the result of its Value method if it has one. A NULL is an error.
func plain(argument any) (reflect.Value, error) {
	v := deref(argument)
	if !v.IsValid() {
		return v, errNull
	}
	valuer, ok := v.Interface().(driver.Valuer)
	if !ok {
		return v, nil
	}
	value, err := valuer.Value()
	if err == nil && value == nil {
		err = errNull
	}
	return reflect.ValueOf(value), err
}

// elementsOf returns the elements of an array argument, a slice.
func elementsOf(argument any) ([]any, error) {
	v := deref(argument)
	if !v.IsValid() {
		return nil, nil
	}
	if v.Kind() != reflect.Slice {
		return nil, unusable(argument, "a slice")
	}
	all := make([]any, v.Len())
	for i := range all {
		all[i] = v.Index(i).Interface()
	}
	return all, nil
}

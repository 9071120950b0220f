package querylock

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/keytext"
)

var errNull = errors.New("it is NULL, and a lock's name needs a value")

// encode returns the canonical text of a query's argument, whatever Go type sqlc or the caller has chosen for it.
func encode(t Type, argument any) (string, error) {
	switch t {
	case Int:
		return encodeInt(argument)
	case Text:
		return encodeText(argument)
	case UUID:
		return encodeUUID(argument)
	case Bool:
		return encodeBool(argument)
	case Time:
		return encodeTime(argument)
	}
	return "", errors.New("its type is unknown")
}

func encodeInt(argument any) (string, error) {
	switch n := argument.(type) {
	case int64:
		return keytext.EncodeInt(n), nil
	case int32:
		return keytext.EncodeInt(int64(n)), nil
	}
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	switch {
	case v.CanInt():
		return keytext.EncodeInt(v.Int()), nil
	case v.CanUint() && v.Uint() <= 1<<63-1:
		return keytext.EncodeInt(int64(v.Uint())), nil
	}
	return "", unusable(argument, "an integer")
}

func encodeText(argument any) (string, error) {
	if s, ok := argument.(string); ok {
		return keytext.EncodeText(s)
	}
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	if v.Kind() != reflect.String {
		return "", unusable(argument, "a text")
	}
	if _, ok := v.Interface().(fmt.Stringer); ok { // pgx sends what String returns, and database/sql the string itself
		return "", unusable(argument, "a string without a String method")
	}
	return keytext.EncodeText(v.String())
}

func encodeBool(argument any) (string, error) {
	v, err := plain(argument)
	if err != nil {
		return "", err
	}
	if v.Kind() != reflect.Bool {
		return "", unusable(argument, "a boolean")
	}
	return keytext.EncodeBool(v.Bool()), nil
}

var bytesOfUUID = reflect.TypeFor[[16]byte]()

func encodeUUID(argument any) (string, error) {
	var u pgtype.UUID
	v := deref(argument)
	if v.IsValid() && v.Type().ConvertibleTo(bytesOfUUID) && v.Kind() == reflect.Array {
		return keytext.EncodeUUID(v.Convert(bytesOfUUID).Interface().([16]byte)), nil
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
	return keytext.EncodeUUID(u.Bytes), nil
}

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
	return keytext.EncodeTime(at)
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

// elementsOf returns the elements of an array argument: a slice, or a value that holds one, such as a pq.Array.
func elementsOf(argument any) ([]any, error) {
	v := deref(argument)
	if v.Kind() == reflect.Struct && v.NumField() == 1 && v.Field(0).CanInterface() { // pq.GenericArray{A any}
		v = deref(v.Field(0).Interface())
	}
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

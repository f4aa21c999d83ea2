// JSON: named tuples are objects, other tuples and lists are lists, and what is not finite is a word.

#include "texts.hpp"

#include <charconv>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

// What stands before each value of a named tuple: `{"first": `, `, "second": `.
using Keys = std::vector<std::string>;

bool append_value(std::string &out, PyObject *value);

void append_escape(std::string &out, unsigned code) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[code >> shift & 15];
}

void append_character(std::string &out, Py_UCS4 code) {
    switch (code) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\f': out += "\\f"; return;
    case '\b': out += "\\b"; return;
    default: break;
    }
    if (code >= ' ' && code < 0x7F) {
        out += static_cast<char>(code);
    } else if (code < 0x10000) {
        append_escape(out, code);
    } else {
        append_escape(out, 0xD800 + ((code - 0x10000) >> 10));
        append_escape(out, 0xDC00 + (code & 0x3FF));
    }
}

bool is_plain(const char *text, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; ++i) {
        const auto letter = static_cast<unsigned char>(text[i]);
        if (letter < ' ' || letter >= 0x7F || letter == '"' || letter == '\\') return false;
    }
    return true;
}

void append_text(std::string &out, PyObject *value) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    out += '"';
    if (text && is_plain(text, size)) {
        out.append(text, static_cast<size_t>(size));
    } else {
        // Names of files may hold what has no UTF-8.
        PyErr_Clear();
        const Py_ssize_t length = PyUnicode_GetLength(value);
        for (Py_ssize_t i = 0; i < length; ++i) append_character(out, PyUnicode_ReadChar(value, i));
    }
    out += '"';
}

// The fewest digits that are this number and no other, laid out as Python does.
void append_finite(std::string &out, double value) {
    char buffer[32];
    const char *end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    const char *mark = end - 1;
    while (*mark != 'e') --mark;
    int exponent = 0;
    std::from_chars(mark + (mark[1] == '+' ? 2 : 1), end, exponent);
    if (exponent < -4 || exponent >= 16) {
        out.append(buffer, static_cast<size_t>(end - buffer));
        return;
    }
    std::string digits;
    for (const char *place = buffer; place < mark; ++place) {
        if (*place == '-') out += '-';
        else if (*place != '.') digits += *place;
    }
    if (exponent < 0) {
        out += "0.";
        out.append(static_cast<size_t>(-exponent - 1), '0') += digits;
        return;
    }
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
    out.append(digits, 0, whole) += '.';
    out.append(digits, whole);
}

void append_float(std::string &out, double value) {
    if (std::isfinite(value)) append_finite(out, value);
    else out += std::isnan(value) ? "\"nan\"" : value < 0 ? "\"-inf\"" : "\"inf\"";
}

bool append_integer(std::string &out, PyObject *value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow) {
        out += std::to_string(number);
        return true;
    }
    return append_new(out, PyNumber_ToBase(value, 10));
}

bool keys_from(Keys &keys, PyObject *names) {
    if (!PyTuple_Check(names)) return false;
    const Py_ssize_t count = PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (!PyUnicode_Check(name)) return false;
        std::string key = i ? ", " : "{";
        append_text(key, name);
        keys.push_back(key + ": ");
    }
    return true;
}

// The keys of a named tuple; none for other tuples, and with an error for one whose fields have no proper names.
const Keys *keys_of(PyTypeObject *type) {
    static std::unordered_map<PyTypeObject *, Keys> known;
    const auto found = known.find(type);
    if (found != known.end()) return &found->second;
    PyObject *names = PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "_fields");
    if (!names) {
        PyErr_Clear();
        return nullptr;
    }
    Keys keys;
    const bool are_texts = keys_from(keys, names);
    Py_DECREF(names);
    if (!are_texts) {
        PyErr_SetString(PyExc_TypeError, "the fields of a named tuple have no proper names");
        return nullptr;
    }
    // The type must not be freed: another one could come to its place.
    Py_INCREF(reinterpret_cast<PyObject *>(type));
    return &(known[type] = keys);
}

bool append_object(std::string &out, PyObject *value, const Keys &keys) {
    if (static_cast<size_t>(PyTuple_Size(value)) != keys.size()) {
        PyErr_SetString(PyExc_ValueError, "a named tuple does not have a value for each field");
        return false;
    }
    if (keys.empty()) out += '{';
    for (size_t i = 0; i < keys.size(); ++i) {
        out += keys[i];
        if (!append_value(out, PyTuple_GetItem(value, static_cast<Py_ssize_t>(i)))) return false;
    }
    out += '}';
    return true;
}

template <typename Item>
bool append_list(std::string &out, Py_ssize_t size, Item item) {
    out += '[';
    for (Py_ssize_t i = 0; i < size; ++i) {
        if (i) out += ", ";
        if (!append_value(out, item(i))) return false;
    }
    out += ']';
    return true;
}

bool append_dictionary(std::string &out, PyObject *value) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t place = 0;
    const char *before = "{";
    while (PyDict_Next(value, &place, &key, &item)) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "the keys of an object are texts");
            return false;
        }
        out += before;
        before = ", ";
        append_text(out, key);
        out += ": ";
        if (!append_value(out, item)) return false;
    }
    out += *before == '{' ? "{}" : "}";
    return true;
}

bool append_nested(std::string &out, PyObject *value) {
    if (PyTuple_Check(value)) {
        const Keys *keys = Py_TYPE(value) == &PyTuple_Type ? nullptr : keys_of(Py_TYPE(value));
        if (keys) return append_object(out, value, *keys);
        if (PyErr_Occurred()) return false;
        return append_list(out, PyTuple_Size(value), [=](Py_ssize_t i) { return PyTuple_GetItem(value, i); });
    }
    if (PyList_Check(value))
        return append_list(out, PyList_Size(value), [=](Py_ssize_t i) { return PyList_GetItem(value, i); });
    if (PyDict_Check(value)) return append_dictionary(out, value);
    PyErr_Format(PyExc_TypeError, "JSON has nothing for %R", Py_TYPE(value));
    return false;
}

// One more level of nesting, also when it is left for want of memory.
struct Level {
    const bool is_allowed = Py_EnterRecursiveCall(" while writing JSON") == 0;

    ~Level() {
        if (is_allowed) Py_LeaveRecursiveCall();
    }
};

bool append_value(std::string &out, PyObject *value) {
    if (PyFloat_Check(value)) append_float(out, PyFloat_AsDouble(value));
    else if (PyUnicode_Check(value)) append_text(out, value);
    else if (value == Py_None) out += "null";
    else if (value == Py_True) out += "true";
    else if (value == Py_False) out += "false";
    else if (PyLong_Check(value)) return append_integer(out, value);
    else {
        const Level level;
        return level.is_allowed && append_nested(out, value);
    }
    return true;
}

}  // namespace

PyObject *json_text(PyObject *, PyObject *value) {
    return with_memory([=]() -> PyObject * {
        std::string out;
        if (!append_value(out, value)) return nullptr;
        return PyBytes_FromStringAndSize(out.data(), static_cast<Py_ssize_t>(out.size()));
    });
}

// A line of a CSV file: UTF-8, quotes where they are needed.

#include "texts.hpp"

namespace {

void append_quoted(std::string &out, const char *text, size_t size) {
    out += '"';
    for (size_t i = 0; i < size; ++i) {
        if (text[i] == '"') out += '"';
        out += text[i];
    }
    out += '"';
}

void append_bytes(std::string &out, const char *text, size_t size) {
    bool is_plain = true;
    for (size_t i = 0; i < size; ++i)
        is_plain &= text[i] != ',' && text[i] != '"' && text[i] != '\r' && text[i] != '\n';
    if (is_plain) out.append(text, size);
    else append_quoted(out, text, size);
}

// A text may hold what has no UTF-8: names of files do.
bool append_escaped(std::string &out, PyObject *text) {
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (!bytes) return false;
    append_bytes(out, PyBytes_AsString(bytes), static_cast<size_t>(PyBytes_Size(bytes)));
    Py_DECREF(bytes);
    return true;
}

bool append_text(std::string &out, PyObject *value) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (!text) return append_escaped(out, value);
    append_bytes(out, text, static_cast<size_t>(size));
    return true;
}

bool append_cell(std::string &out, PyObject *value) {
    if (PyUnicode_Check(value)) return append_text(out, value);
    if (value == Py_None) return true;
    PyObject *text = PyObject_Str(value);
    if (!text) return false;
    const bool is_written = append_text(out, text);
    Py_DECREF(text);
    return is_written;
}

// Whether a spreadsheet cannot take it for a formula: no sign stands where one could begin. Others may be harmless, too.
bool is_harmless(const char *text, size_t size) {
    bool is_start = true;
    for (size_t i = 0; i < size; ++i) {
        const auto letter = static_cast<unsigned char>(text[i]);
        const bool is_letter = (letter | 0x20) >= 'a' && (letter | 0x20) <= 'z';
        const bool is_digit = letter >= '0' && letter <= '9';
        if (letter < ' ' || letter >= 0x7F) return false;
        if (is_start && !is_letter && !is_digit && letter != '/' && letter != '[' && letter != '(') return false;
        is_start = letter == ';';
    }
    return true;
}

// `guard` makes a text harmless.
bool append_guarded(std::string &out, PyObject *value, PyObject *guard) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text && is_harmless(text, static_cast<size_t>(size))) {
        append_bytes(out, text, static_cast<size_t>(size));
        return true;
    }
    PyErr_Clear();
    PyObject *guarded = PyObject_CallFunctionObjArgs(guard, value, nullptr);
    if (!guarded) return false;
    const bool is_written = append_text(out, guarded);
    Py_DECREF(guarded);
    return is_written;
}

template <typename Append>
PyObject *line_of(PyObject *list, Append append) {
    std::string out;
    const Py_ssize_t count = PyList_Size(list);
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (i) out += ',';
        if (!append(out, PyList_GetItem(list, i))) return nullptr;
    }
    // An empty line would be no line.
    if (count == 1 && out.empty()) out = "\"\"";
    out += "\r\n";
    return PyBytes_FromStringAndSize(out.data(), static_cast<Py_ssize_t>(out.size()));
}

template <typename Append>
PyObject *line_of_any(PyObject *cells, Append append) {
    PyObject *list = PySequence_List(cells);
    if (!list) return nullptr;
    PyObject *line = with_memory([=] { return line_of(list, append); });
    Py_DECREF(list);
    return line;
}

}  // namespace

PyObject *csv_line(PyObject *, PyObject *cells) {
    return line_of_any(cells, append_cell);
}

PyObject *readable_line(PyObject *, PyObject *arguments) {
    PyObject *cells = nullptr, *guard = nullptr;
    if (!PyArg_ParseTuple(arguments, "OO", &cells, &guard)) return nullptr;
    return line_of_any(cells, [=](std::string &out, PyObject *value) {
        if (value == Py_None) return true;
        return PyUnicode_Check(value) ? append_guarded(out, value, guard) : append_readable(out, value);
    });
}

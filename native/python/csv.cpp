// A line of a CSV file: UTF-8, quotes where they are needed.

#include "texts.hpp"

#include <string>

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
    PyObject *text = PyFloat_Check(value) ? PyObject_Repr(value) : PyObject_Str(value);
    if (!text) return false;
    const bool is_written = append_text(out, text);
    Py_DECREF(text);
    return is_written;
}

PyObject *line_of(PyObject *cells) {
    std::string out;
    const Py_ssize_t count = PyList_Size(cells);
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (i) out += ',';
        if (!append_cell(out, PyList_GetItem(cells, i))) return nullptr;
    }
    // An empty line would be no line.
    if (count == 1 && out.empty()) out = "\"\"";
    out += "\r\n";
    return PyBytes_FromStringAndSize(out.data(), static_cast<Py_ssize_t>(out.size()));
}

}  // namespace

PyObject *csv_line(PyObject *, PyObject *cells) {
    PyObject *list = PySequence_List(cells);
    if (!list) return nullptr;
    PyObject *line = nullptr;
    try {
        line = line_of(list);
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    }
    Py_DECREF(list);
    return line;
}

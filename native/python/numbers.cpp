// Numbers as tables print them.

#include "texts.hpp"

#include <charconv>
#include <cmath>
#include <string_view>

namespace {

// A float below 1e16 with six decimals, or any with six digits and a power of ten.
struct Letters {
    char letters[32];
    const char *end;

    Letters(double value, std::chars_format format, int digits)
        : end(std::to_chars(letters, letters + sizeof letters, value, format, digits).ptr) {}

    double number() const {
        double value = 0;
        std::from_chars(letters, end, value);
        return value;
    }

    std::string_view view() const { return {letters, static_cast<size_t>(end - letters)}; }
};

}  // namespace

void append_readable(std::string &out, double value) {
    const double size = std::fabs(value);
    if (std::isnan(value)) {
        out += "NaN";
    } else if (std::isinf(value)) {
        out += value < 0 ? "-inf" : "inf";
    } else if (value == 0) {
        out += "0.000000";
    } else if (size >= 1e16) {
        out += Letters(value, std::chars_format::scientific, 5).view();
    } else {
        const Letters fixed(value, std::chars_format::fixed, 6);
        if (size >= 0.1 || fixed.number() == value) out += fixed.view();
        else out += Letters(value, std::chars_format::scientific, 5).view();
    }
}

bool append_new(std::string &out, PyObject *text) {
    Py_ssize_t size = 0;
    const char *letters = text ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
    if (letters) out.append(letters, static_cast<size_t>(size));
    Py_XDECREF(text);
    return letters;
}

bool append_readable(std::string &out, PyObject *value) {
    if (PyLong_Check(value)) return append_new(out, PyObject_Str(value));
    // Also numbers of NumPy's.
    const double number = PyFloat_AsDouble(value);
    if (number == -1 && PyErr_Occurred()) return false;
    append_readable(out, number);
    return true;
}

PyObject *number_text(PyObject *, PyObject *value) {
    if (value == Py_None) return PyUnicode_FromString("NaN");
    return with_memory([=]() -> PyObject * {
        std::string out;
        if (!append_readable(out, value)) return nullptr;
        return PyUnicode_FromStringAndSize(out.data(), static_cast<Py_ssize_t>(out.size()));
    });
}

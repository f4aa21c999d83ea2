// Numbers as tables print them.

#include "texts.hpp"

#include <charconv>
#include <cmath>

namespace {

struct Text {
    // The longest is a number below 1e16 with six decimals.
    char letters[32];
    char *end = letters;

    Text(double value, std::chars_format format, int digits)
        : end(std::to_chars(letters, letters + sizeof letters, value, format, digits).ptr) {}

    double number() const {
        double value = 0;
        std::from_chars(letters, end, value);
        return value;
    }

    PyObject *object() const { return PyUnicode_FromStringAndSize(letters, end - letters); }
};

PyObject *float_text(double value) {
    const double size = std::fabs(value);
    if (std::isnan(value)) return PyUnicode_FromString("NaN");
    if (std::isinf(value)) return PyUnicode_FromString(value < 0 ? "-inf" : "inf");
    if (value == 0) return PyUnicode_FromString("0.000000");
    if (size < 1e16) {
        const Text fixed(value, std::chars_format::fixed, 6);
        if (size >= 0.1 || fixed.number() == value) return fixed.object();
    }
    return Text(value, std::chars_format::scientific, 5).object();
}

}  // namespace

PyObject *number_text(PyObject *, PyObject *value) {
    if (PyFloat_Check(value)) return float_text(PyFloat_AsDouble(value));
    if (value == Py_None) return PyUnicode_FromString("NaN");
    if (PyLong_Check(value)) return PyObject_Str(value);
    // A number of NumPy's.
    const double number = PyFloat_AsDouble(value);
    return PyErr_Occurred() ? nullptr : float_text(number);
}

#include "wire.hpp"

#include <cstdint>
#include <vector>

namespace {

constexpr const char *table_name = "opdiff.message_table";
// As in Python: `read/protowire.py` says why.
constexpr Py_ssize_t most_items = 1 << 16;
constexpr uint64_t longest_text = 16 << 20;

enum Kind { uint64_kind, uint32_kind, int32_kind, text_kind, data_kind, message_kind };
enum Wire { varint_wire, fixed64_wire, length_wire, fixed32_wire = 5 };

struct Field {
    unsigned number;
    PyObject *name;
    int kind;
    int is_repeated;
    PyObject *message;

    bool is_number() const { return kind <= int32_kind; }
};

struct Table {
    std::vector<Field> fields;

    const Field *find(uint64_t number) const {
        for (const Field &field : fields)
            if (field.number == number) return &field;
        return nullptr;
    }
};

// Bytes that are read one after the other; `is_good` is false from the first on that is not there or not right.
struct Input {
    const uint8_t *at;
    const uint8_t *end;
    bool is_good = true;

    uint64_t varint(unsigned bits = 64) {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < bits && at < end; shift += 7) {
            const uint64_t byte = *at++;
            value |= (byte & 0x7F) << shift;
            if (byte < 0x80) return value;
        }
        is_good = false;
        return 0;
    }

    Input part(uint64_t size) {
        if (size > static_cast<uint64_t>(end - at)) {
            is_good = false;
            return {end, end, false};
        }
        const uint8_t *start = at;
        at += size;
        return {start, at};
    }
};

PyObject *decode(const Table &table, Input input);

const Table *table_of(PyObject *capsule) {
    return static_cast<const Table *>(PyCapsule_GetPointer(capsule, table_name));
}

PyObject *number_of(const Field &field, uint64_t value) {
    if (field.kind == uint64_kind) return PyLong_FromUnsignedLongLong(value);
    const auto low = static_cast<uint32_t>(value);
    return field.kind == int32_kind ? PyLong_FromLong(static_cast<int32_t>(low)) : PyLong_FromUnsignedLong(low);
}

// Takes the value over; false when it is not there, or one too many.
bool put(PyObject *values, const Field &field, PyObject *value) {
    if (!value) return false;
    bool is_put = false;
    if (!field.is_repeated) {
        is_put = PyDict_SetItem(values, field.name, value) == 0;
    } else {
        PyObject *items = PyDict_GetItemWithError(values, field.name);
        PyObject *fresh = items ? nullptr : PyList_New(0);
        if (fresh && PyDict_SetItem(values, field.name, fresh) == 0) items = fresh;
        is_put = items && PyList_Size(items) < most_items && PyList_Append(items, value) == 0;
        Py_XDECREF(fresh);
    }
    Py_DECREF(value);
    return is_put;
}

PyObject *text_of(const Input &part) {
    const auto size = part.end - part.at;
    if (static_cast<uint64_t>(size) > longest_text) return nullptr;
    return PyUnicode_DecodeUTF8(reinterpret_cast<const char *>(part.at), size, nullptr);
}

bool take_numbers(PyObject *values, const Field &field, Input part) {
    while (part.at < part.end) {
        const uint64_t value = part.varint();
        if (!part.is_good || !put(values, field, number_of(field, value))) return false;
    }
    return part.is_good;
}

bool take_part(PyObject *values, const Field &field, const Input &part) {
    if (!part.is_good) return false;
    if (field.is_number()) return take_numbers(values, field, part);
    if (field.kind == text_kind) return put(values, field, text_of(part));
    if (field.kind != message_kind) return false;
    // A message that comes twice has to be merged.
    if (!field.is_repeated && PyDict_Contains(values, field.name)) return false;
    return put(values, field, decode(*table_of(field.message), part));
}

bool pass_over(unsigned wire, Input &input) {
    switch (wire) {
    case varint_wire: input.varint(); break;
    case fixed64_wire: input.part(8); break;
    case length_wire: input.part(input.varint()); break;
    case fixed32_wire: input.part(4); break;
    default: return false;
    }
    return input.is_good;
}

bool take_field(const Table &table, PyObject *values, Input &input) {
    const uint64_t tag = input.varint(32);
    if (!input.is_good || tag < 8 || tag > UINT32_MAX) return false;
    const Field *field = table.find(tag >> 3);
    const auto wire = static_cast<unsigned>(tag & 7);
    if (field && wire == varint_wire && field->is_number()) {
        const uint64_t value = input.varint();
        return input.is_good && put(values, *field, number_of(*field, value));
    }
    if (field && wire == length_wire && (field->is_repeated || !field->is_number())) {
        const uint64_t size = input.varint();
        return input.is_good && take_part(values, *field, input.part(size));
    }
    return pass_over(wire, input);
}

// Null, with or without an error of Python's, when it cannot be decoded here.
PyObject *decode(const Table &table, Input input) {
    PyObject *values = PyDict_New();
    while (values && input.at < input.end)
        if (!take_field(table, values, input)) Py_CLEAR(values);
    return values;
}

void forget(PyObject *capsule) {
    const Table *table = table_of(capsule);
    for (const Field &field : table->fields) {
        Py_DECREF(field.name);
        Py_DECREF(field.message);
    }
    delete table;
}

bool add_field(Table &table, PyObject *description) {
    Field field{};
    if (!PyArg_ParseTuple(
            description, "IUipO", &field.number, &field.name, &field.kind, &field.is_repeated, &field.message))
        return false;
    if (field.kind == message_kind && !table_of(field.message)) return false;
    table.fields.push_back(field);
    Py_INCREF(field.name);
    Py_INCREF(field.message);
    return true;
}

PyObject *new_table(PyObject *fields) {
    const Py_ssize_t count = PyTuple_Size(fields);
    if (count < 0) return nullptr;
    auto *table = new Table;
    PyObject *capsule = PyCapsule_New(table, table_name, forget);
    for (Py_ssize_t i = 0; capsule && i < count; ++i)
        if (!add_field(*table, PyTuple_GetItem(fields, i))) Py_CLEAR(capsule);
    return capsule;
}

}  // namespace

PyObject *message_table(PyObject *, PyObject *fields) {
    return with_memory([=] { return new_table(fields); });
}

PyObject *decode_message(PyObject *, PyObject *arguments) {
    PyObject *capsule = nullptr, *data = nullptr;
    Py_ssize_t start = 0, end = 0;
    if (!PyArg_ParseTuple(arguments, "OOnn", &capsule, &data, &start, &end)) return nullptr;
    const Table *table = table_of(capsule);
    Py_buffer buffer;
    if (!table || PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    PyObject *values = nullptr;
    if (start >= 0 && start <= end && end <= buffer.len) {
        const auto *bytes = static_cast<const uint8_t *>(buffer.buf);
        values = decode(*table, {bytes + start, bytes + end});
    }
    PyBuffer_Release(&buffer);
    if (values) return values;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) return nullptr;
    PyErr_Clear();
    Py_RETURN_NONE;
}

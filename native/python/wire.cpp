// The module `opdiff._native`: the protobuf wire format, as far as dump headers usually need it.
//
// `read/protowire.py` defines the result. Headers that it rejects or doubts, and rare ones, yield None here. Only the part of
// Python's interface is used that is stable from 3.11 on.

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <cstdint>
#include <new>
#include <vector>

namespace {

constexpr const char *table_name = "opdiff.message_table";
// As in `read/protowire.py`: a few bytes can announce many items.
constexpr Py_ssize_t max_items = 1 << 16;
constexpr uint64_t max_text = 16 << 20;

enum Kind { uint64_kind, uint32_kind, int32_kind, text_kind, data_kind, message_kind };
enum Wire { varint_wire, length_wire = 2 };

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

// Bytes read sequentially; `is_good` becomes false at the first missing or malformed one. An input and its parts share the
// number of fields that may still be read.
struct Input {
    const uint8_t *at;
    const uint8_t *end;
    Py_ssize_t *fields_left;
    bool is_good = true;

    bool count_field() { return (*fields_left)-- > 0; }

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
            return {end, end, fields_left, false};
        }
        const uint8_t *start = at;
        at += size;
        return {start, at, fields_left};
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

// Takes ownership of the value; returns false if it is null, one too many, or the second value of a single field.
bool put(PyObject *values, const Field &field, PyObject *value) {
    if (!value) return false;
    bool is_put = false;
    if (!field.is_repeated) {
        is_put = PyDict_Contains(values, field.name) == 0 && PyDict_SetItem(values, field.name, value) == 0;
    } else {
        PyObject *items = PyDict_GetItemWithError(values, field.name);
        PyObject *fresh = items ? nullptr : PyList_New(0);
        if (fresh && PyDict_SetItem(values, field.name, fresh) == 0) items = fresh;
        is_put = items && PyList_Size(items) < max_items && PyList_Append(items, value) == 0;
        Py_XDECREF(fresh);
    }
    Py_DECREF(value);
    return is_put;
}

PyObject *text_of(const Input &part) {
    const auto size = part.end - part.at;
    if (static_cast<uint64_t>(size) > max_text) return nullptr;
    return PyUnicode_DecodeUTF8(reinterpret_cast<const char *>(part.at), size, nullptr);
}

bool take_numbers(PyObject *values, const Field &field, Input part) {
    while (part.at < part.end) {
        const uint64_t value = part.varint();
        if (!part.is_good || !part.count_field() || !put(values, field, number_of(field, value))) return false;
    }
    return part.is_good;
}

bool take_part(PyObject *values, const Field &field, const Input &part) {
    if (!part.is_good) return false;
    if (field.is_number()) return take_numbers(values, field, part);
    if (field.kind == text_kind) return put(values, field, text_of(part));
    if (field.kind != message_kind) return false;
    return put(values, field, decode(*table_of(field.message), part));
}

bool take_field(const Table &table, PyObject *values, Input &input) {
    const uint64_t tag = input.varint(32);
    if (!input.is_good || !input.count_field() || tag < 8 || tag > UINT32_MAX) return false;
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
    return false;
}

// Returns null, with or without a Python exception, if the message cannot be decoded here.
PyObject *decode(const Table &table, Input input) {
    PyObject *values = PyDict_New();
    while (values && input.at < input.end)
        if (!take_field(table, values, input)) Py_CLEAR(values);
    return values;
}

void free_table(PyObject *capsule) {
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
    PyObject *capsule = PyCapsule_New(table, table_name, free_table);
    for (Py_ssize_t i = 0; capsule && i < count; ++i)
        if (!add_field(*table, PyTuple_GetItem(fields, i))) Py_CLEAR(capsule);
    return capsule;
}

// message_table(fields): each field is (number, name, kind, is repeated, table of its message or None).
PyObject *message_table(PyObject *, PyObject *fields) {
    try {
        return new_table(fields);
    } catch (const std::bad_alloc &) {
        return PyErr_NoMemory();
    }
}

// decode_message(table, data, start, end, max_fields): values by name, or None.
PyObject *decode_message(PyObject *, PyObject *arguments) {
    PyObject *capsule = nullptr, *data = nullptr;
    Py_ssize_t start = 0, end = 0, max_fields = 0;
    if (!PyArg_ParseTuple(arguments, "OOnnn", &capsule, &data, &start, &end, &max_fields)) return nullptr;
    const Table *table = table_of(capsule);
    Py_buffer buffer;
    if (!table || PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    PyObject *values = nullptr;
    if (start >= 0 && start <= end && end <= buffer.len) {
        const auto *bytes = static_cast<const uint8_t *>(buffer.buf);
        values = decode(*table, {bytes + start, bytes + end, &max_fields});
    }
    PyBuffer_Release(&buffer);
    if (values) return values;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) return nullptr;
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"decode_message", decode_message, METH_VARARGS, nullptr},
    {"message_table", message_table, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// Equal to `_NATIVE_VERSION` in `src/opdiff/read/protowire.py`.
constexpr long version = 5;

int add_version(PyObject *module) {
    return PyModule_AddIntConstant(module, "VERSION", version);
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void *>(add_version)},
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", nullptr, 0, functions, slots, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    return PyModuleDef_Init(&definition);
}

#include "rules.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

constexpr int deepest = 100;
// Rule files have some dozens; of any number of them, many could be made to look alike to a table, and slow it down.
constexpr size_t most_names = 256;
// What fits in 64 bits in any case.
constexpr size_t most_digits = 18;

bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

constexpr auto usual_letters = [] {
    std::array<bool, 256> usual{};
    for (unsigned code = ' '; code < 0x80; ++code) usual[code] = code != '"' && code != '\\';
    return usual;
}();

// Whether a letter of a text stands for itself.
bool is_usual(char letter) {
    return usual_letters[static_cast<unsigned char>(letter)];
}

void append_utf8(std::string &out, unsigned code) {
    const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xC0 | code >> 6);
        tail(0);
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0 | code >> 12);
        tail(6), tail(0);
    } else {
        out += static_cast<char>(0xF0 | code >> 18);
        tail(12), tail(6), tail(0);
    }
}

// A text as it stands between its quotes.
struct Text {
    std::string_view raw;
    bool has_escapes = false;
};

class Reader {
public:
    Reader(const char *data, size_t size, std::vector<std::string> read)
        : at_(data), end_(data + size), read_(std::move(read)) {}

    ~Reader() {
        for (const auto &known : names_) Py_DECREF(known.second);
    }

    // Null, with or without an error of Python's, for what cannot be read here.
    PyObject *document() {
        PyObject *value = read_value();
        pass_blanks();
        if (value && at_ != end_) Py_CLEAR(value);
        return value;
    }

    bool is_ascii() const { return is_ascii_; }

private:
    void pass_blanks() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
    }

    // Whether this is the next sign, which is then passed.
    bool take(char sign) {
        pass_blanks();
        if (at_ == end_ || *at_ != sign) return false;
        ++at_;
        return true;
    }

    bool take_word(std::string_view word) {
        if (std::string_view(at_, static_cast<size_t>(end_ - at_)).substr(0, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }

    char next() {
        pass_blanks();
        return at_ < end_ ? *at_ : '\0';
    }

    bool take_text(Text &text) {
        if (!take('"')) return false;
        text.has_escapes = false;
        const char *start = at_;
        for (;; ++at_) {
            while (at_ < end_ && is_usual(*at_)) ++at_;
            if (at_ == end_ || *at_ == '"') break;
            const auto letter = static_cast<unsigned char>(*at_);
            if (letter < ' ') return false;
            if (letter >= 0x80) is_ascii_ = false;
            if (letter == '\\') {
                text.has_escapes = true;
                if (++at_ == end_) return false;
            }
        }
        text.raw = {start, static_cast<size_t>(at_ - start)};
        return take('"') && (!text.has_escapes || unescape(text.raw));
    }

    // Fills `unescaped_`; false when an escape is wrong, or one half of a pair.
    bool unescape(std::string_view raw) {
        unescaped_.clear();
        for (size_t i = 0; i < raw.size(); ++i) {
            if (raw[i] != '\\') {
                unescaped_ += raw[i];
                continue;
            }
            const size_t which = std::string_view("\"\\/bfnrt").find(raw[++i]);
            if (which != std::string_view::npos) {
                unescaped_ += "\"\\/\b\f\n\r\t"[which];
                continue;
            }
            unsigned code = 0;
            if (raw[i] != 'u' || !hexadecimal(raw, i + 1, code)) return false;
            i += 4;
            if (code >= 0xD800 && code < 0xE000) {
                unsigned low = 0;
                const bool has_low = raw.substr(i + 1, 2) == "\\u" && hexadecimal(raw, i + 3, low);
                if (code >= 0xDC00 || !has_low || low < 0xDC00 || low >= 0xE000) return false;
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                i += 6;
            }
            append_utf8(unescaped_, code);
        }
        return true;
    }

    static bool hexadecimal(std::string_view raw, size_t start, unsigned &code) {
        if (start + 4 > raw.size()) return false;
        const char *first = raw.data() + start;
        return std::from_chars(first, first + 4, code, 16).ptr == first + 4;
    }

    // A number by the grammar of JSON; how many digits it has before a point.
    bool take_number(std::string_view &number, bool &is_whole) {
        const char *start = at_;
        if (at_ < end_ && *at_ == '-') ++at_;
        const char *digits = at_;
        pass_digits();
        const auto count = static_cast<size_t>(at_ - digits);
        if (!count || count > most_digits || (count > 1 && *digits == '0')) return false;
        is_whole = true;
        if (at_ < end_ && *at_ == '.') {
            ++at_;
            is_whole = false;
            if (!pass_digits()) return false;
        }
        if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
            ++at_;
            is_whole = false;
            if (at_ < end_ && (*at_ == '+' || *at_ == '-')) ++at_;
            if (!pass_digits()) return false;
        }
        number = {start, static_cast<size_t>(at_ - start)};
        return true;
    }

    bool pass_digits() {
        const char *start = at_;
        while (at_ < end_ && is_digit(*at_)) ++at_;
        return at_ > start;
    }

    // Everything is checked that is passed over.
    bool pass_value() {
        Text text;
        std::string_view number;
        bool is_whole = false;
        switch (next()) {
        case '{': return pass_nested('}', [&] { return take_text(text) && take(':') && pass_value(); });
        case '[': return pass_nested(']', [&] { return pass_value(); });
        case '"': return take_text(text);
        case 't': return take_word("true");
        case 'f': return take_word("false");
        case 'n': return take_word("null");
        default: return take_number(number, is_whole);
        }
    }

    template <typename Item>
    bool pass_nested(char close, Item item) {
        ++at_;
        if (take(close)) return true;
        if (++depth_ > deepest) return false;
        do {
            if (!item()) return false;
        } while (take(','));
        --depth_;
        return take(close);
    }

    PyObject *read_value() {
        switch (next()) {
        case '{': return read_object();
        case '[': return read_list(false);
        case '"': return read_text();
        case 't': return take_word("true") ? Py_NewRef(Py_True) : nullptr;
        case 'f': return take_word("false") ? Py_NewRef(Py_False) : nullptr;
        case 'n': return take_word("null") ? Py_NewRef(Py_None) : nullptr;
        default: return read_number();
        }
    }

    PyObject *object_of(const Text &text) const {
        const std::string_view letters = text.has_escapes ? std::string_view(unescaped_) : text.raw;
        return PyUnicode_DecodeUTF8(letters.data(), static_cast<Py_ssize_t>(letters.size()), nullptr);
    }

    PyObject *read_text() {
        Text text;
        return take_text(text) ? object_of(text) : nullptr;
    }

    PyObject *read_number() {
        std::string_view number;
        bool is_whole = false;
        if (!take_number(number, is_whole)) return nullptr;
        const char *end = number.data() + number.size();
        if (is_whole) {
            long long value = 0;
            std::from_chars(number.data(), end, value);
            return PyLong_FromLongLong(value);
        }
        double value = 0;
        const bool is_good = std::from_chars(number.data(), end, value).ec == std::errc();
        return is_good ? PyFloat_FromDouble(value) : nullptr;
    }

    // The name of a field: one object for all that are alike.
    PyObject *read_name() {
        Text text;
        if (!take_text(text)) return nullptr;
        const auto known = names_.find(text.raw);
        if (known != names_.end()) return Py_NewRef(known->second);
        PyObject *name = object_of(text);
        if (name && names_.size() < most_names) names_.emplace(text.raw, Py_NewRef(name));
        return name;
    }

    PyObject *read_object() {
        PyObject *fields = PyDict_New();
        ++at_;
        if (!fields || take('}')) return fields;
        if (++depth_ > deepest) Py_CLEAR(fields);
        while (fields && read_field(fields) && take(',')) continue;
        --depth_;
        if (fields && (is_bad_ || !take('}'))) Py_CLEAR(fields);
        return fields;
    }

    // False, and `is_bad_`, when it cannot be read.
    bool read_field(PyObject *fields) {
        PyObject *name = read_name();
        PyObject *value = nullptr;
        if (name && take(':')) {
            const bool is_list = next() == '[' && PyUnicode_CompareWithASCIIString(name, "attr") == 0;
            value = is_list ? read_list(true) : read_value();
        }
        if (!value || PyDict_SetItem(fields, name, value) < 0) is_bad_ = true;
        Py_XDECREF(value);
        Py_XDECREF(name);
        return !is_bad_;
    }

    PyObject *read_list(bool has_attributes) {
        PyObject *items = PyList_New(0);
        ++at_;
        if (!items || take(']')) return items;
        if (++depth_ > deepest) Py_CLEAR(items);
        while (items && read_item(items, has_attributes) && take(',')) continue;
        --depth_;
        if (items && (is_bad_ || !take(']'))) Py_CLEAR(items);
        return items;
    }

    bool read_item(PyObject *items, bool is_attribute) {
        if (is_attribute && pass_unread()) return true;
        PyObject *value = read_value();
        if (!value || PyList_Append(items, value) < 0) is_bad_ = true;
        Py_XDECREF(value);
        return !is_bad_;
    }

    // Pass over an attribute that nobody reads; when it is another, or odd, everything stays as it was.
    bool pass_unread() {
        const char *start = at_;
        const int depth = depth_;
        Text name, key, other;
        const bool has_key = take('{') && take_text(name) && name.raw == "key" && take(':') && next() == '"' &&
                             take_text(key) && !key.has_escapes && !is_read(key.raw);
        if (has_key) {
            bool is_good = true;
            while (is_good && take(','))
                is_good = take_text(other) && !other.has_escapes && other.raw != "key" && take(':') && pass_value();
            if (is_good && take('}')) return true;
        }
        at_ = start;
        depth_ = depth;
        return false;
    }

    bool is_read(std::string_view key) const {
        for (const std::string &name : read_)
            if (name == key) return true;
        return false;
    }

    const char *at_;
    const char *end_;
    std::vector<std::string> read_;
    std::unordered_map<std::string_view, PyObject *> names_;
    std::string unescaped_;
    int depth_ = 0;
    bool is_ascii_ = true;
    bool is_bad_ = false;
};

bool texts_of(PyObject *names, std::vector<std::string> &texts) {
    const Py_ssize_t count = PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < count; ++i) {
        Py_ssize_t size = 0;
        const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), &size);
        if (!text) return false;
        texts.emplace_back(text, static_cast<size_t>(size));
    }
    return count >= 0;
}

bool is_utf8(const char *data, Py_ssize_t size) {
    PyObject *text = PyUnicode_DecodeUTF8(data, size, nullptr);
    Py_XDECREF(text);
    return text;
}

PyObject *document_of(PyObject *bytes, PyObject *names) {
    std::vector<std::string> read;
    if (!texts_of(names, read)) return nullptr;
    const char *data = PyBytes_AsString(bytes);
    const Py_ssize_t size = PyBytes_Size(bytes);
    if (!data) return nullptr;
    Reader reader(data, static_cast<size_t>(size), std::move(read));
    PyObject *document = reader.document();
    if (document && !reader.is_ascii() && !is_utf8(data, size)) Py_CLEAR(document);
    if (document) return document;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) return nullptr;
    PyErr_Clear();
    Py_RETURN_NONE;
}

}  // namespace

PyObject *rule_json(PyObject *, PyObject *arguments) {
    PyObject *data = nullptr, *read = nullptr;
    if (!PyArg_ParseTuple(arguments, "SO!", &data, &PyTuple_Type, &read)) return nullptr;
    return with_memory([=] { return document_of(data, read); });
}

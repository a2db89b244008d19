import Foundation

/// text; also reads varchar, bpchar, name and "char".
extension String: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .text }

    @inlinable
    package static func accepts(oid: UInt32) -> Bool {
        switch oid {
        case 25, 1043, 1042, 19, 18: true
        default: false
        }
    }

    @inlinable
    package func encode(into bytes: inout [UInt8]) throws(PostgresError) {
        if containsNUL { throw .holdsNUL(.text) }
        bytes.append(contentsOf: utf8)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        let text = unsafe bytes.withUnsafeBytes { unsafe String(validating: $0, as: UTF8.self) }
        guard let text else { return nil }
        self = text
    }
}

extension String {
    @usableFromInline
    var containsNUL: Bool {
        let found = unsafe utf8.withContiguousStorageIfAvailable { utf8 in
            guard let start = utf8.baseAddress else { return false }
            return unsafe memchr(start, 0, utf8.count) != nil
        }
        return found ?? utf8.contains(0)
    }
}

/// text that is held as the bytes of its UTF-8, which hold no NUL: content that is passed on as it was made.
@usableFromInline
package struct PostgresTextBytes: PostgresValue, Hashable {
    @usableFromInline package var bytes: [UInt8]

    /// - Parameter bytes: valid UTF-8.
    @inlinable
    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    @inlinable
    package static var postgresType: PostgresType { .text }

    @inlinable
    package func encode(into bytes: inout [UInt8]) throws(PostgresError) {
        if self.bytes.contains(0) { throw .holdsNUL(.text) }
        bytes.append(contentsOf: self.bytes)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        self.bytes = unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) }
    }
}

/// bytea, and not an array of anything: a byte alone is no value.
extension Array: PostgresValue where Element == UInt8 {
    @inlinable
    package static var postgresType: PostgresType { .bytea }

    @inlinable
    package func encode(into bytes: inout [UInt8]) { bytes.append(contentsOf: self) }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        self = unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) }
    }
}

/// A JSON text: sent as jsonb, read from jsonb or json. jsonb keeps the values, not the spelling.
@usableFromInline
package struct PostgresJSON: PostgresValue, Hashable {
    @usableFromInline package var text: String

    @inlinable
    package init(_ text: String) { self.text = text }

    @inlinable
    package static var postgresType: PostgresType { .jsonb }

    @inlinable
    package static func accepts(oid: UInt32) -> Bool { oid == 3802 || oid == 114 }

    @inlinable
    package func encode(into bytes: inout [UInt8]) throws(PostgresError) {
        if text.containsNUL { throw .holdsNUL(.jsonb) }
        // jsonb's binary form is a version, 1, and the text.
        bytes.append(1)
        bytes.append(contentsOf: text.utf8)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        var rest = bytes
        if oid == 3802 {
            guard bytes.byteCount > 0, bytes.postgresInteger(as: UInt8.self) == 1 else { return nil }
            rest = bytes.extracting(droppingFirst: 1)
        }
        guard let text = String(postgresBytes: rest, oid: PostgresType.text.oid) else { return nil }
        self.text = text
    }
}

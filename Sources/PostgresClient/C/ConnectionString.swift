// SPDX-License-Identifier: Apache-2.0

import CLibpq
import Glibc

/// A connection string as libpq reads it.
struct ConnectionString {
    /// Options of the string, in libpq's order.
    let options: [(keyword: String, value: String)]

    init(parsing text: String) throws(PostgresError) {
        guard !text.utf8.contains(0) else {
            throw PostgresError(.configuration, "the connection string holds a NUL byte")
        }
        var message: UnsafeMutablePointer<CChar>?
        guard let list = unsafe PQconninfoParse(text, &message) else {
            defer { unsafe PQfreemem(message) }
            let reason = unsafe message.map { unsafe String(cString: $0) } ?? "out of memory"
            throw PostgresError(.configuration, "invalid connection string: " + Self.withoutSecrets(reason, of: text))
        }
        defer { unsafe PQconninfoFree(list) }
        var options: [(keyword: String, value: String)] = []
        var entry = unsafe list
        while let keyword = unsafe entry.pointee.keyword {
            if let value = unsafe entry.pointee.val {
                options.append((unsafe String(cString: keyword), unsafe String(cString: value)))
            }
            unsafe entry += 1
        }
        self.options = options
    }

    subscript(keyword: String) -> String? {
        options.first { $0.keyword == keyword }?.value
    }

    /// Hosts that libpq tries in turn.
    var hostCount: Int {
        let hosts = self["hostaddr"] ?? self["host"] ?? ""
        return hosts.count { $0 == "," } + 1
    }

    /// File with the system's authorities, for a verified server without any named authorities; nil otherwise. A file
    /// of the user, an environment variable and a service have precedence, as libpq documents.
    func systemCertificates(among bundles: [String]) -> String? {
        func variable(_ name: String) -> String? {
            unsafe getenv(name).map { unsafe String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        let named = self["sslrootcert"] ?? variable("PGSSLROOTCERT")
        guard (self["sslmode"] ?? variable("PGSSLMODE")) == "verify-full", named == nil || named == "system",
            self["service"] == nil, variable("PGSERVICE") == nil
        else { return nil }
        let own = variable("HOME").map { $0 + "/.postgresql/root.crt" }
        if named == nil, let own, unsafe access(own, R_OK) == 0 { return nil }
        return bundles.first { unsafe access($0, R_OK) == 0 }
    }

    /// Files that may hold the system's authorities for certificates, that of the variable `SSL_CERT_FILE` first.
    static let systemBundles: [String] = {
        let named = unsafe getenv("SSL_CERT_FILE").map { unsafe String(cString: $0) }
        return [named].compactMap { $0 }.filter { !$0.isEmpty } + [
            "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
        ]
    }()

    /// Checks values that libpq checks only when it connects.
    func validate() throws(PostgresError) {
        let choices = [
            "sslmode": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
            "target_session_attrs": ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"],
            "channel_binding": ["disable", "prefer", "require"],
            "gssencmode": ["disable", "prefer", "require"],
        ]
        for option in options {
            if let allowed = choices[option.keyword], !option.value.isEmpty, !allowed.contains(option.value) {
                throw PostgresError(
                    .configuration,
                    "invalid \(option.keyword) \"\(option.value)\": one of \(allowed.joined(separator: ", "))")
            }
        }
        for port in (self["port"] ?? "").split(separator: ",") {
            guard let number = Int(port), (1...65535).contains(number) else {
                throw PostgresError(.configuration, "invalid port \"\(port)\": a number from 1 to 65535")
            }
        }
    }

    /// Removes quoted parts of libpq's parse errors if the text holds a password, which may be what they quote.
    private static func withoutSecrets(_ reason: String, of text: String) -> String {
        let reason = reason.split(separator: "\n").joined(separator: " ")
        let lowercased = text.lowercased()
        if !lowercased.contains("pass"), !(lowercased.contains("://") && lowercased.contains("@")) { return reason }
        let parts = reason.split(separator: "\"", omittingEmptySubsequences: false)
        guard parts.count > 1 else { return reason }
        // The text itself may hold quotes: keep only what is before the first and after the last one.
        return parts[0] + "\"…\"" + parts[parts.count - 1]
    }
}

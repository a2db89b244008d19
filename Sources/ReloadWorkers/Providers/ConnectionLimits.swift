package import NIOSSL

/// How connections to providers are made: how long they may take, and whose certificates are believed.
package struct ConnectionLimits: Sendable {
    /// A file of authorities that cannot be used.
    package struct InvalidTrustRoots: Error, CustomStringConvertible {
        package let path: String
        package let message: String
        package var description: String { "\(path): \(message)" }
    }

    /// Until a connection is made, TLS included.
    package var connectTimeout: Duration
    /// Until the next bytes of an answer.
    package var readTimeout: Duration
    /// Certificates are verified, and the host's name with them.
    package private(set) var tls: TLSConfiguration

    package init(connectTimeout: Duration = .seconds(3), readTimeout: Duration = .seconds(30)) {
        self.connectTimeout = connectTimeout
        self.readTimeout = readTimeout
        tls = TLSConfiguration.makeClientConfiguration()
        // Older versions are no protection any more.
        tls.minimumTLSVersion = .tlsv12
    }

    /// Trusts the authorities of a file with PEM certificates, besides the system's.
    package mutating func trust(roots file: String) throws(InvalidTrustRoots) {
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try NIOSSLCertificate.fromPEMFile(file)
        } catch {
            throw InvalidTrustRoots(path: file, message: "cannot be read as PEM certificates")
        }
        guard !certificates.isEmpty else { throw InvalidTrustRoots(path: file, message: "holds no certificate") }
        tls.additionalTrustRoots = [.certificates(certificates)]
    }
}

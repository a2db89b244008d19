package import NIOSSL

/// Time limits and trusted certificates of connections to providers.
package struct ConnectionLimits: Sendable {
    /// A file of authorities that cannot be read.
    package struct InvalidTrustRoots: Error, CustomStringConvertible {
        package let path: String
        package let message: String
        package var description: String { "\(path): \(message)" }
    }

    /// Limit of making a connection, TLS included.
    package var connectTimeout: Duration
    /// Limit of the wait for the next bytes of an answer.
    package var readTimeout: Duration
    /// Verifies certificates and host names.
    package private(set) var tls: TLSConfiguration

    package init(connectTimeout: Duration = .seconds(3), readTimeout: Duration = .seconds(30)) {
        self.connectTimeout = connectTimeout
        self.readTimeout = readTimeout
        tls = TLSConfiguration.makeClientConfiguration()
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

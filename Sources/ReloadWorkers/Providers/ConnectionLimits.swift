import NIOSSL

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
    let tls: TLSConfiguration

    package init(connectTimeout: Duration = .seconds(3), readTimeout: Duration = .seconds(30)) {
        self.connectTimeout = connectTimeout
        self.readTimeout = readTimeout
        tls = Self.modernTLS
    }

    /// Older versions than 1.2 are no protection any more.
    private static var modernTLS: TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        return tls
    }

    /// - Parameter trustRoots: a file with PEM certificates of authorities that are trusted besides the system's.
    package init(
        connectTimeout: Duration = .seconds(3), readTimeout: Duration = .seconds(30), trustRoots: String?
    ) throws(InvalidTrustRoots) {
        self.connectTimeout = connectTimeout
        self.readTimeout = readTimeout
        var tls = Self.modernTLS
        if let trustRoots {
            let certificates: [NIOSSLCertificate]
            do {
                certificates = try NIOSSLCertificate.fromPEMFile(trustRoots)
            } catch {
                throw InvalidTrustRoots(path: trustRoots, message: "cannot be read as PEM certificates")
            }
            guard !certificates.isEmpty else {
                throw InvalidTrustRoots(path: trustRoots, message: "holds no certificate")
            }
            tls.additionalTrustRoots = [.certificates(certificates)]
        }
        self.tls = tls
    }
}

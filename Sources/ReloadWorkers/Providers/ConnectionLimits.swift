package import NIOCore
import NIOHTTP2
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

/// Additions to the connections of the HTTP client that speak HTTP/2.
package enum HTTP2Connection {
    /// Prepares a new connection: interprets the peer's resets of streams, and closes the connection after an error of the
    /// whole connection, such as too many resets.
    ///
    /// SwiftNIO answers such an error with GOAWAY and leaves the connection open. The HTTP client would send further
    /// requests on it, whose answers can get lost.
    package static func prepare(_ channel: any Channel) -> EventLoopFuture<Void> {
        StreamResetFilter.add(to: channel).flatMap {
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(ErrorHandler())
            }
        }
    }
}

private final class ErrorHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case is NIOHTTP2Errors.ExcessiveRSTFrames, is NIOHTTP2Errors.ExcessiveControlFrames,
            is NIOHTTP2Errors.ExcessiveEmptyDataFrames, is NIOHTTP2Errors.ExcessiveContinuationFrames,
            is NIOHTTP2Errors.ExcessiveStreamErrors, is NIOHTTP2Errors.ExcessiveNumberOfGlitches,
            is NIOHTTP2Errors.ExcessivelyLargeHeaderBlock, is NIOHTTP2Errors.UnableToParseFrame,
            is NIOHTTP2Errors.IOOnClosedConnection:
            context.close(promise: nil)
        default: context.fireErrorCaught(error)
        }
    }
}

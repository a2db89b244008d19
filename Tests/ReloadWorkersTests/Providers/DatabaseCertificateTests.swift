// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import ReloadWorkers

@Suite("Certificates of PostgreSQL", .timeLimit(.patience))
struct DatabaseCertificateTests {
    /// Error of a connection to a server that encrypts, and refuses every login with `28000`.
    private func error(
        certificate: String, host: String = "localhost", options: String = "",
        bundle: String = TestCertificates.authority
    ) async throws -> PostgresError? {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(
            "freshet-\(UInt64.random(in: 0 ... .max))")
        try Data(bundle.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8))
        let key = try NIOSSLPrivateKey(bytes: Array(TestCertificates.key.utf8), format: .pem)
        let tls = try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: certificates.map { .certificate($0) }, privateKey: .privateKey(key)))
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(RefusingServer(tls: tls))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = server.localAddress?.port ?? 0
        var configuration = PostgresConfiguration(
            connectionString:
                "host=\(host) hostaddr=127.0.0.1 port=\(port) user=u password=p dbname=d gssencmode=disable "
                + "sslmode=verify-full \(options)")
        configuration.certificateBundles = ["/nowhere/first.crt", file.path]
        configuration.acquireTimeout = .seconds(5)
        let pool = PostgresPool(configuration: configuration, logger: .silent)
        let result: Result<Int, any Error>
        do { result = .success(try await pool.withConnection { _ in 0 }) } catch { result = .failure(error) }
        await pool.shutdown()
        try await server.close()
        if case .failure(let error) = result { return error as? PostgresError }
        return nil
    }

    @Test(
        "verify-full finds the system's authorities without a file of its own", arguments: ["", "sslrootcert=system"])
    func systemAuthorities(options: String) async throws {
        let error = try await error(certificate: TestCertificates.localhost, options: options)
        #expect(error?.message.contains("no entry") == true, "the certificate is trusted: the server answers")
    }

    @Test("verify-full refuses another host's certificate, and one of an unknown authority")
    func untrusted() async throws {
        let host = try await error(certificate: TestCertificates.otherHost)
        #expect(host?.message.contains("does not match host name") == true)
        let authority = try await error(certificate: TestCertificates.localhost, bundle: TestCertificates.otherHost)
        #expect(authority?.message.contains("certificate verify failed") == true)
    }
}

/// Begins TLS when it is asked to, and refuses the login after it.
private final class RefusingServer: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let tls: NIOSSLContext
    private let isEncrypted = Mutex(false)

    init(tls: NIOSSLContext) { self.tls = tls }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let isLogin = isEncrypted.withLock { encrypted in
            defer { encrypted = true }
            return encrypted
        }
        guard isLogin else {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "S")), promise: nil)
            try? context.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls), position: .first)
            return
        }
        let fields = "SFATAL\0VFATAL\0C28000\0Mno entry\0\0"
        var answer = ByteBuffer(string: "E")
        answer.writeInteger(Int32(4 + fields.utf8.count))
        answer.writeString(fields)
        context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

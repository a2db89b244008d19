// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import JSON
import JWTKit
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
package import NIOSSL
import SwiftASN1
import Synchronization
package import WidgetModel
import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Stands in for Apple's push notification service: a server of HTTP/2 over TLS that checks pushes as the service does,
/// and answers with the service's errors and faults.
///
/// Source: Apple, "Sending notification requests to APNs".
package final class APNsStandIn: Sendable {
    /// A push that was received.
    package struct Push: Sendable {
        package let token: String
        package let topic: String
        /// Environment whose server got it.
        package let environment: APNsAddress.Environment
        /// Identity of its connection.
        package let connection: ObjectIdentifier
        package let headers: [String: String]
        package let body: String
    }

    /// Reaction to a push that is not accepted.
    package enum Fault: Sendable {
        case answer(APNsAnswer)
        /// Never answers.
        case hang
        /// Sends the head of an answer, and never its end.
        case stall
        /// Sends the head of an answer, and then a byte of its body again and again.
        case trickle
        /// Resets the stream.
        case reset
        /// Sends GOAWAY, which leaves this push and later ones of the connection unanswered, and closes the connection
        /// a little later.
        case goAway
        /// Closes the connection.
        case cut
    }

    package struct Statistics: Sendable {
        package var received = 0
        package var accepted = 0
        package var connections = 0
        /// Pushes that were accepted, by token.
        package var byToken: [String: Int] = [:]
        /// Answers by reason.
        package var refused: [String: Int] = [:]

        package init() {}
    }

    private struct State {
        /// Nil before it listens.
        var channel: (any Channel)?
        var statistics = Statistics()
        var fault: (@Sendable (Push) -> Fault?)?
        var resetsAnswered = false
        /// Verified provider tokens, by their text.
        var verified: [String: Verified] = [:]
        /// Latest valid provider token of each open connection.
        var inUse: [ObjectIdentifier: Verified] = [:]
        /// Keys of apps by their id; without any, signatures are not checked.
        var keys: [String: (team: String, key: P256.Signing.PublicKey)] = [:]
    }

    /// A provider token that is well-formed and signed.
    private struct Verified: JWTPayload, Equatable {
        /// Team and time of issue, in seconds.
        let iss: String
        let iat: Int64
        /// Id of the key, from the token's header.
        var kid: String?

        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    /// Least age difference of the provider tokens that follow one another on a connection, in seconds.
    private static let shortestTokenLifetime: Int64 = 20 * 60

    private let state = Mutex(State())
    private let countsTokens: Bool
    /// Certificate of the authority that clients must trust.
    package let certificatePEM: String

    /// A key of an app at the service, as Apple's `.p8` files hold it.
    package static func makeKey() -> String { P256.Signing.PrivateKey().pemRepresentation }

    package var url: String { "https://localhost:\(state.withLock { $0.channel }?.localAddress?.port ?? 0)" }
    /// Base URL of the other environment, for which one server stands in, too.
    package var sandboxURL: String { url + sandboxPath }
    package var statistics: Statistics { state.withLock { $0.statistics } }

    private init(certificatePEM: String, countsTokens: Bool) {
        self.certificatePEM = certificatePEM
        self.countsTokens = countsTokens
    }

    /// Starts a server on a port of the loopback interface.
    ///
    /// - Parameters:
    ///   - port: 0 lets the system choose.
    ///   - countsTokens: whether the pushes of each token are counted, in memory that grows with them.
    ///   - maximumStreams: requests of a connection at once; Apple allows 1,000.
    package static func start(
        port: Int = 0, countsTokens: Bool = true, maximumStreams: Int = 1_000
    ) async throws -> APNsStandIn {
        let certificate = try StandInCertificate()
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(certificate.certificate)], privateKey: .privateKey(certificate.key))
        tls.applicationProtocols = ["h2"]
        let context = try NIOSSLContext(configuration: tls)
        let standIn = APNsStandIn(certificatePEM: certificate.pem, countsTokens: countsTokens)
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [HTTP2Setting(parameter: .maxConcurrentStreams, value: maximumStreams)]
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [connection] channel in
                standIn.noteOpened(channel)
                return channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(NIOSSLServerHandler(context: context))
                    _ = try pipeline.configureHTTP2Pipeline(
                        mode: .server, connectionConfiguration: connection, streamConfiguration: .init()
                    ) { stream in
                        stream.eventLoop.makeCompletedFuture {
                            try stream.pipeline.syncOperations.addHandlers([
                                HTTP2FramePayloadToHTTP1ServerCodec(), StreamHandler(standIn),
                            ])
                        }
                    }
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        standIn.state.withLock { $0.channel = channel }
        return standIn
    }

    /// Sets what is done with pushes from now on; nil accepts them.
    package func set(_ fault: (@Sendable (Push) -> Fault?)?) {
        state.withLock { $0.fault = fault }
    }

    /// Resets the streams of pushes without an error after their answers, from now on, as servers do that answer
    /// without reading the rest of a request (RFC 9113, 8.1).
    package func resetAnswered() {
        state.withLock { $0.resetsAnswered = true }
    }

    fileprivate var resetsAnswered: Bool { state.withLock { $0.resetsAnswered } }

    /// Takes only provider tokens that are signed with a trusted key of its team, from now on.
    ///
    /// - Parameter privateKey: as ``makeKey()`` makes it.
    package func trust(_ privateKey: String, keyID: String, teamID: String) throws {
        let key = try P256.Signing.PrivateKey(pemRepresentation: privateKey).publicKey
        state.withLock { $0.keys[keyID] = (teamID, key) }
    }

    package func stop() async throws {
        try await state.withLock { $0.channel }?.close()
    }

    private func noteOpened(_ connection: any Channel) {
        state.withLock { $0.statistics.connections += 1 }
        connection.closeFuture.whenComplete { [self] _ in
            state.withLock { $0.inUse[ObjectIdentifier(connection)] = nil }
        }
    }

    // MARK: Checks

    fileprivate func receive(_ push: Push, path: String, method: HTTPMethod) -> Fault? {
        state.withLock { state in
            state.statistics.received += 1
            let refusal = problem(of: push, path: path, method, &state).map { APNsAnswer(status: $0.0, reason: $0.1) }
            let fault = refusal.map(Fault.answer) ?? state.fault?(push)
            if let fault {
                if case .answer(let answer) = fault { state.statistics.refused[answer.reason, default: 0] += 1 }
                return fault
            }
            state.statistics.accepted += 1
            if countsTokens { state.statistics.byToken[push.token, default: 0] += 1 }
            return nil
        }
    }

    private func problem(
        of push: Push, path: String, _ method: HTTPMethod, _ state: inout State
    ) -> (Int, String)? {
        guard method == .POST else { return (405, "MethodNotAllowed") }
        guard path.hasPrefix("/3/device/") else { return (404, "BadPath") }
        guard [UInt8](hexadecimal: push.token) != nil, !push.token.isEmpty else { return (400, "BadDeviceToken") }
        guard push.headers["apns-push-type"] == "widgets" else { return (400, "InvalidPushType") }
        guard !push.topic.isEmpty else { return (400, "MissingTopic") }
        guard push.topic.hasSuffix(APNsAddress.topicSuffix) else { return (400, "BadTopic") }
        guard ["5", "10"].contains(push.headers["apns-priority"]) else { return (400, "BadPriority") }
        guard (push.headers["apns-collapse-id"]?.utf8.count ?? 0) <= 64 else { return (400, "BadCollapseId") }
        guard Int(push.headers["apns-expiration"] ?? "0") != nil else { return (400, "BadExpirationDate") }
        guard push.body == #"{"aps":{"content-changed":true}}"# else { return (400, "PayloadEmpty") }
        guard let authorization = push.headers["authorization"] else { return (403, "MissingProviderToken") }
        guard let token = state.verified[authorization] ?? Self.verify(authorization, state.keys) else {
            return (403, "InvalidProviderToken")
        }
        if state.verified.count >= 1_000 { state.verified = [:] }
        state.verified[authorization] = token
        let age = Timestamp.now().microseconds / 1_000_000 - token.iat
        guard age <= 3_600, age >= -60 else { return (403, "ExpiredProviderToken") }
        return problem(ofUsing: token, on: push.connection, &state)
    }

    private func problem(
        ofUsing token: Verified, on connection: ObjectIdentifier, _ state: inout State
    ) -> (Int, String)? {
        if let last = state.inUse[connection], last != token {
            guard last.iss == token.iss else { return (403, "InvalidProviderToken") }
            guard last.kid == token.kid, token.iat - last.iat >= Self.shortestTokenLifetime else {
                return (429, "TooManyProviderTokenUpdates")
            }
        }
        state.inUse[connection] = token
        return nil
    }

    private static func verify(
        _ authorization: String, _ keys: [String: (team: String, key: P256.Signing.PublicKey)]
    ) -> Verified? {
        let words = authorization.split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer",
            let token = try? DefaultJWTParser().parse(Array(words[1].utf8), as: Verified.self),
            token.header.alg == "ES256", let keyID = token.header.kid
        else { return nil }
        if !keys.isEmpty {
            let parts = words[1].split(separator: ".")
            guard let trusted = keys[keyID], token.payload.iss == trusted.team, parts.count == 3,
                let bytes = Data(base64URL: String(parts[2])),
                let signature = try? P256.Signing.ECDSASignature(rawRepresentation: bytes),
                trusted.key.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8))
            else { return nil }
        }
        var verified = token.payload
        verified.kid = keyID
        return verified
    }
}

extension Data {
    fileprivate init?(base64URL text: String) {
        let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        self.init(
            base64Encoded: text.replacing("-", with: "+").replacing("_", with: "/") + padding)
    }
}

/// Path of the sandbox's requests, before that of Apple's.
private let sandboxPath = "/sandbox"

/// Reads one push and answers it.
private final class StreamHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// Time for which earlier pushes of a connection are answered after GOAWAY.
    private static let drainTime = TimeAmount.milliseconds(100)
    private static let trickleInterval = TimeAmount.milliseconds(20)

    private let standIn: APNsStandIn
    private var head: HTTPRequestHead?
    private var body = ByteBuffer()

    init(_ standIn: APNsStandIn) {
        self.standIn = standIn
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): self.head = head
        case .body(let part):
            // More than APNs takes is not kept.
            if body.readableBytes < 8_192 { body.writeImmutableBuffer(part) }
        case .end: if let head { answer(head, context) }
        }
    }

    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let headers = Dictionary(head.headers.map { ($0.name, $0.value) }) { $1 }
        let isSandbox = head.uri.hasPrefix(sandboxPath)
        let path = isSandbox ? String(head.uri.dropFirst(sandboxPath.count)) : head.uri
        let push = APNsStandIn.Push(
            token: head.uri.split(separator: "/").last.map(String.init) ?? "", topic: headers["apns-topic"] ?? "",
            environment: isSandbox ? .sandbox : .production,
            connection: ObjectIdentifier(context.channel.parent ?? context.channel), headers: headers,
            body: String(buffer: body))
        switch standIn.receive(push, path: path, method: head.method) {
        case nil: write(APNsAnswer(status: 200), context)
        case .answer(let answer): write(answer, context)
        case .hang: break
        case .stall: writeHead(context)
        case .trickle:
            writeHead(context)
            trickle(context)
        case .reset: context.close(promise: nil)
        case .goAway: goAway(context)
        case .cut: context.channel.parent?.close(promise: nil)
        }
    }

    private func writeHead(_ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(.head(HTTPResponseHead(version: .http2, status: .ok))), promise: nil)
    }

    private func trickle(_ context: ChannelHandlerContext) {
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.trickleInterval) {
            guard context.channel.isActive else { return }
            context.writeAndFlush(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: " ")))), promise: nil)
            self.trickle(context)
        }
    }

    /// Writes RST_STREAM with NO_ERROR below the HTTP/2 handler, for which the stream has ended.
    private func resetStream(_ context: ChannelHandlerContext) {
        guard let stream = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID),
            let http2 = try? context.channel.parent?.pipeline.syncOperations.context(handlerType: NIOHTTP2Handler.self)
        else { return }
        var frame = ByteBuffer(bytes: [0, 0, 4, 3, 0])
        frame.writeInteger(UInt32(Int(stream)))
        frame.writeInteger(UInt32(0))
        http2.writeAndFlush(NIOAny(frame), promise: nil)
    }

    /// Names the stream before this one as the last that is processed.
    private func goAway(_ context: ChannelHandlerContext) {
        guard let stream = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID) else {
            return
        }
        let last = HTTP2StreamID(max(0, Int(stream) - 2))
        let frame = HTTP2Frame(
            streamID: .rootStream, payload: .goAway(lastStreamID: last, errorCode: .noError, opaqueData: nil))
        guard let connection = context.channel.parent else { return }
        connection.writeAndFlush(frame, promise: nil)
        connection.eventLoop.scheduleTask(in: Self.drainTime) { connection.close(promise: nil) }
    }

    private func write(_ answer: APNsAnswer, _ context: ChannelHandlerContext) {
        var headers: HTTPHeaders = ["apns-id": answer.apnsID ?? String.randomID()]
        if let delay = answer.retryAfter { headers.add(name: "retry-after", value: "\(delay.components.seconds)") }
        let head = HTTPResponseHead(
            version: .http2, status: HTTPResponseStatus(statusCode: answer.status), headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if answer.status != 200 {
            var json = JSONObject()
            json["reason"] = .string(answer.reason)
            if let since = answer.since { json["timestamp"] = .count(since.microseconds / 1_000) }
            let bytes = JSONValue.object(json).encoded
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        }
        let end = context.eventLoop.makePromise(of: Void.self)
        if standIn.resetsAnswered {
            end.futureResult.assumeIsolated().whenSuccess { self.resetStream(context) }
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: end)
    }
}

/// A certificate for `localhost` of an authority of its own, made for one stand-in.
package struct StandInCertificate {
    package let pem: String
    package let certificate: NIOSSLCertificate
    package let key: NIOSSLPrivateKey

    package init() throws {
        let signer = P256.Signing.PrivateKey()
        let name = try DistinguishedName { CommonName("localhost") }
        let now = Date()
        let signed = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(signer.publicKey),
            notValidBefore: now.addingTimeInterval(-3_600), notValidAfter: now.addingTimeInterval(30 * 86_400),
            issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                SubjectAlternativeNames([.dnsName("localhost")])
            },
            issuerPrivateKey: .init(signer))
        pem = try signed.serializeAsPEM().pemString
        certificate = try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem)
        key = try NIOSSLPrivateKey(bytes: Array(signer.pemRepresentation.utf8), format: .pem)
    }
}

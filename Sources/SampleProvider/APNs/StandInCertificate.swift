import Crypto
package import NIOSSL
import SwiftASN1
import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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

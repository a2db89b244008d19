// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Certificates for test servers, generated once and valid for a century. Their keys protect nothing.
package enum TestCertificates {
    /// Authority that signed the other certificates.
    package static let authority = """
        -----BEGIN CERTIFICATE-----
        MIIBmDCCAT2gAwIBAgIURHVJDF8S4rQZzbsZMJC7xcJNagUwCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNRnJlc2hldCB0ZXN0czAgFw0yNjExMjExMjM4NDJaGA8yMTI2
        MTAyODEyMzg0MlowGDEWMBQGA1UEAwwNRnJlc2hldCB0ZXN0czBZMBMGByqGSM49
        AgEGCCqGSM49AwEHA0IABHl8ls4jBYjQvSXtKHbZoM+R6P+cSvOtBZeoJNiCy2vu
        AsPIBUOSp60oH+UfVHzIBen3r9Ged/xwyO+B746wbuyjYzBhMB0GA1UdDgQWBBTQ
        BH7/vTnG9JOqKwe46VPw3Fv9BzAfBgNVHSMEGDAWgBTQBH7/vTnG9JOqKwe46VPw
        3Fv9BzAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAKBggqhkjOPQQD
        AgNJADBGAiEAswG8B+7yO5RLdfP2oXaPlH4Mx8l+eSv0hI+lRhwyOo0CIQCNokaM
        kemqsL4ivKdBQ75KG8l7Hz43lngRbuQOfdUmxw==
        -----END CERTIFICATE-----
        """

    /// Certificate of the host `localhost`.
    package static let localhost = """
        -----BEGIN CERTIFICATE-----
        MIIBpzCCAU6gAwIBAgIUf2scN/kUgAQMECRdbEVd6CdncuIwCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNRnJlc2hldCB0ZXN0czAgFw0yNjExMjExMjM4NDJaGA8yMTI2
        MTAyODEyMzg0MlowFDESMBAGA1UEAwwJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYI
        KoZIzj0DAQcDQgAEBBgVdJvTbWxwv3v+E2bQRbTcNGVmpmP3IzS8HMFJaG9jorj/
        ZrsUb3d/avjRSPCCxbXDiDNXDhAaho9biVkn0aN4MHYwFAYDVR0RBA0wC4IJbG9j
        YWxob3N0MAkGA1UdEwQCMAAwEwYDVR0lBAwwCgYIKwYBBQUHAwEwHQYDVR0OBBYE
        FM6PesglqWbjt08SFmnN4vG5iBwCMB8GA1UdIwQYMBaAFNAEfv+9Ocb0k6orB7jp
        U/DcW/0HMAoGCCqGSM49BAMCA0cAMEQCIF0GlepkD/KsjVlOSLkGRZ8gPOyVHL2S
        5A39LQT5WrS4AiAdAIyDxIHrEtuXzkMw8D0hu8AppvsN/rXvSmcOdYHTJA==
        -----END CERTIFICATE-----
        """

    /// Certificate of another host, `other.example`.
    package static let otherHost = """
        -----BEGIN CERTIFICATE-----
        MIIBsTCCAVagAwIBAgIUf2scN/kUgAQMECRdbEVd6CdncuMwCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNRnJlc2hldCB0ZXN0czAgFw0yNjExMjExMjM4NDJaGA8yMTI2
        MTAyODEyMzg0MlowGDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTBZMBMGByqGSM49
        AgEGCCqGSM49AwEHA0IABAQYFXSb021scL97/hNm0EW03DRlZqZj9yM0vBzBSWhv
        Y6K4/2a7FG93f2r40UjwgsW1w4gzVw4QGoaPW4lZJ9GjfDB6MBgGA1UdEQQRMA+C
        DW90aGVyLmV4YW1wbGUwCQYDVR0TBAIwADATBgNVHSUEDDAKBggrBgEFBQcDATAd
        BgNVHQ4EFgQUzo96yCWpZuO3TxIWac3i8bmIHAIwHwYDVR0jBBgwFoAU0AR+/705
        xvSTqisHuOlT8Nxb/QcwCgYIKoZIzj0EAwIDSQAwRgIhAJoKBqwAgvhworfIt72N
        rgXb8bg88ObMuJrzLECjxyBPAiEAmSnZjcruiG1J4ptZEoSG5Go0YvlljI7rpr+h
        8g1Sofo=
        -----END CERTIFICATE-----
        """

    /// Private key of both.
    package static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgeDJG3RrvYj1ecOUV
        9yLXQhLqR/CLr6Eb1kDF10E5YqqhRANCAAQEGBV0m9NtbHC/e/4TZtBFtNw0ZWam
        Y/cjNLwcwUlob2OiuP9muxRvd39q+NFI8ILFtcOIM1cOEBqGj1uJWSfR
        -----END PRIVATE KEY-----
        """

    /// Writes the authority to a file for the duration of the closure, which receives its path.
    package static func withAuthorityFile<Value>(_ body: (String) throws -> Value) throws -> Value {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("authority-\(UUID().uuidString).pem")
        try Data(authority.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        return try body(file.path)
    }
}

"""The certificate authority of the proxy: one for each user, valid only for the hosts that the proxy answers for."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import certifi
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scholarbase.files import atomic_write, locked, storage_errors

KEY_FILE: Final = "authority.pem"
"""The private key and the certificate, which only the user can read."""
BUNDLE_FILE: Final = "certificates.pem"
"""The usual roots and the certificate of the authority."""
ROOT_VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""Variables that name a file of roots, for OpenSSL and Python, requests, curl and Node."""
AUTHORITY_DAYS: Final = 3650
HOST_DAYS: Final = 365
RENEWAL_DAYS: Final = 400
"""An authority that ends sooner is replaced, so that it outlives the certificates of hosts."""
_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


class Authority:
    """A certificate authority whose key is in a folder. It is made on first use.

    Args:
        folder: where its files are.
        hosts: the only hosts for which its certificates are valid. Another list makes a new authority.
        environ: the variables that name the user's own roots.

    Raises:
        StorageError: the folder cannot be written.
    """

    def __init__(self, folder: Path, hosts: Iterable[str], environ: Mapping[str, str]) -> None:
        self._hosts = tuple(hosts)
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.bundle: Final = folder / BUNDLE_FILE
        with storage_errors(folder, "choose another folder with --certificates"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(folder / "lock"):
                self._key, self._certificate = self._opened(folder / KEY_FILE)
                self.roots: Final = _roots(environ, self.bundle)
                certificate = self._certificate.public_bytes(serialization.Encoding.PEM).decode()
                with atomic_write(self.bundle) as file:
                    file.write(f"{self.roots}{certificate}".encode())

    def context(self, host: str) -> ssl.SSLContext:
        """The TLS context of a server that is one of the hosts."""
        if host not in self._contexts:
            self._contexts[host] = self._made_context(host)
        return self._contexts[host]

    def _opened(self, path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        """The key and certificate in a file, or new ones where it is missing, unreadable or out of date."""
        try:
            content = path.read_bytes()
            key = serialization.load_pem_private_key(content, None)
            certificate = x509.load_pem_x509_certificate(content)
            limits = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
        except (FileNotFoundError, ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
            pass
        else:
            lasts = certificate.not_valid_after_utc - datetime.now(UTC) > timedelta(days=RENEWAL_DAYS)
            if lasts and limits == self._constraints() and isinstance(key, ec.EllipticCurvePrivateKey):
                return key, certificate
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ScholarBase proxy on this machine")])
        certificate = (
            _builder(name, name, key.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(self._constraints(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        with atomic_write(path, mode=0o600) as file:
            file.write(_pem(key, certificate))
        return key, certificate

    def _constraints(self) -> x509.NameConstraints:
        return x509.NameConstraints([x509.DNSName(host) for host in self._hosts], None)

    def _made_context(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        issuer = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        certificate = (
            _builder(subject, self._certificate.subject, key.public_key(), HOST_DAYS)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        with tempfile.TemporaryDirectory() as folder:  # ssl reads certificates only from files
            path = Path(folder) / "host.pem"
            path.touch(mode=0o600)
            path.write_bytes(_pem(key, certificate))
            context.load_cert_chain(path)
        return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks of containers may differ
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


def _roots(environ: Mapping[str, str], bundle: Path) -> str:
    """The roots of the user's variables, of the system and of certifi, each once, as PEM."""
    named = [environ.get(name) for name in ROOT_VARIABLES]
    files = [*named, ssl.get_default_verify_paths().cafile, certifi.where()]
    certificates: dict[str, None] = {}
    for file in files:
        # In a shell with the variables of an earlier proxy, they name its bundle.
        if file and Path(file).is_file() and not (bundle.exists() and bundle.samefile(file)):
            certificates.update(dict.fromkeys(_CERTIFICATE.findall(Path(file).read_text("utf-8", "replace"))))
    return "".join(f"{certificate}\n" for certificate in certificates)
